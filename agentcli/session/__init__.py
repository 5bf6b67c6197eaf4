"""The stored conversation: `store` writes it, `load` and `recent` read it, `find` lists sessions."""
