"""What one command of a shell line does: read-only or not, which files it changes, removes or lists."""
