"""Snapshots of files, used to show and undo the agent's changes."""
