"""Layer 1: settings with their sources, and the user's folders."""
