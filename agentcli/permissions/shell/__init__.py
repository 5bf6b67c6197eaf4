"""The text of a shell command: its syntax tree, the strict walk that proves, and the loose walk for deny rules."""
