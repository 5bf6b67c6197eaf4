"""The prompt cache: compare each request with the previous one, name what broke the cached prefix, and count what it
cost."""
