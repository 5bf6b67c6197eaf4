"""Layer 2: what goes into a request. Pure functions over messages; no network, no files but our own prompts."""
