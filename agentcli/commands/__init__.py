"""Slash commands: one file each, one registry; every front end offers the same ones."""
