"""The stored conversation: `store` writes it, `load` and `recent_messages` read it, `find` lists sessions."""
