"""Tool calls of one reply: when each runs (`executor`), its steps from block to result (`toolcall`), and the wording of
refusals.
"""
