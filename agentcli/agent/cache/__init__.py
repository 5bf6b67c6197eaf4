"""The prompt cache: what a request shares with the one before, what broke that, and what it cost."""
