"""Analysis of single commands: whether they are read-only, and which files they change, remove or list."""
