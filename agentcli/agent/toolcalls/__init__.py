"""Tool calls of one reply: when each runs (`executor`), its way from block to result (`toolcall`), and the wording of
refusals.
"""
