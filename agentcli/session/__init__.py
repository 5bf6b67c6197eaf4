"""Layer 2: the stored conversation. `store` writes it, `load` reads it, `find` lists it."""
