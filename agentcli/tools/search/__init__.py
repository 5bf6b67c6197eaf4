"""Grep, Glob and the file index, on ripgrep."""
