"""Dialogs for questions. Each takes plain data, returns one value and has no side effects."""
