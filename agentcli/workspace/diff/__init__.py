"""Diffs of files: what the agent changed, and how the work tree differs from HEAD."""
