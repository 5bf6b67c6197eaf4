"""Layer 2: permission decisions. Nothing here runs a command or asks the user.

`rules/` parses and matches rules, `shell/` and `commands/` analyse commands, `policy` decides, `sandbox/` contains
commands.
"""
