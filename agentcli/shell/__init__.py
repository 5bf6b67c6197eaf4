"""What a shell command does: the grammar, its parts, read-only programs, and files that git and other programs obey.

Knows no rules, modes or decisions: `permissions` decides.
"""
