"""Layer 2: instruction files, their imports, and the agent's notes. Read-only."""
