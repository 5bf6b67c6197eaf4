"""Settings with their sources, the user's folders, stored keys and trust."""
