"""Toolkit for dialogs, pages and pickers: frame, rows, keys, search and text entry."""
