"""Layer 2: what may be done. `rules` reads and matches rules, `policy` decides; nothing here runs or asks."""
