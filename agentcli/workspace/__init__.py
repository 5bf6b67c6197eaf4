"""Keeps what files were like, so that whatever the agent did to them can be put back."""
