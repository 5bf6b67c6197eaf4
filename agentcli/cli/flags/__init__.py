"""Flags: their table, parser, help and shell completion."""
