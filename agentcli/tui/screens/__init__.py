"""Dialogs and pickers. Each takes plain data, returns one value and has no side effect of its own."""
