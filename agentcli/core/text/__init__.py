"""Text: formatting, searching, cleaning and comparing it. Standard library only."""
