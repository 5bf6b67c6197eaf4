"""Layer 2: the contents of a request. Pure functions over messages; no network, no files except our own prompts."""
