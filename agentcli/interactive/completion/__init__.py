"""Completion at the cursor: what could be completed, and where the candidates come from."""
