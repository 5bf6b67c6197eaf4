"""Tool calls of one reply:
when each runs (`executor`), from its block to its result (`toolcall`), and the wording of refusals.
"""
