"""Permission rules: reading and matching them, and which ones to offer."""
