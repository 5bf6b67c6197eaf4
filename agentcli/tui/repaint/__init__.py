"""From frames to bytes for the terminal: only what it does not show already.

`screen` remembers what the terminal shows and what it should show, `cells` makes cells of the strips of a frame, `pens`
has the looks of cells, `scrolling` finds rows that moved, and `changes` writes the cells that differ.
"""
