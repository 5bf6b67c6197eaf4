"""Drafts: the text of the prompt with its chips, saved drafts, the user's editor and the history."""
