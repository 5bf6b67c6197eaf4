"""A stored conversation on the screen: its items, and its end before the rest is read."""
