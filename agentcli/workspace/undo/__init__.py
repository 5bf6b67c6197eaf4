"""Undo and redo: whose change is whose, merging with the user's edits, and putting files back."""
