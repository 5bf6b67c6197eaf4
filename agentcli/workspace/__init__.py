"""Snapshots of files, so that the agent's changes can be shown and undone."""
