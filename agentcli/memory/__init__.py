"""Instruction files, their imports, and the agent's notes. Read-only."""
