"""Markdown and code as lines, also while they are still growing."""
