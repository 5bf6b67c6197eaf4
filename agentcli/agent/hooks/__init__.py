"""Hooks in the loop: their verdicts, awaiting one in a generator, and wrapping them."""
