"""Turns frames into terminal output that contains only the changed cells.

`screen` stores what the terminal shows and what it should show, `cells` converts strips to cells, `pens` stores the
styles of cells, `scrolling` finds rows that moved, and `changes` writes the cells that differ.
"""
