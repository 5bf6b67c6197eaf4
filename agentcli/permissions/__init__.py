"""Layer 2: what may be done. Nothing here runs or asks.

`rules/` reads and matches rules, `shell/` and `commands/` analyse commands, `policy` decides.
"""
