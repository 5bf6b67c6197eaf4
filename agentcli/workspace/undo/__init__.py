"""Undo and redo: attributing changes, merging with the user's edits, and restoring files."""
