"""Layer 1: settings with where each came from, and the user's folders."""
