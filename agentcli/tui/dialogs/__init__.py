"""Dialogs that ask something. Each takes plain data, returns one value and has no side effect."""
