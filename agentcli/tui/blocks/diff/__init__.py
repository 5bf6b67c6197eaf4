"""Diffs as rows: their layout, and the colours inside their lines."""
