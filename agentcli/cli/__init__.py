"""Layer 5: the command line. Reads arguments, builds `Options`, imports exactly one front end."""

COMMAND_NAMES = (
    "help",
    "demo",
    "config",
    "sessions",
    "permissions",
    "doctor",
    "trust",
    "quarantine",
    "plugins",
    "login",
    "logout",
    "status",
    "mcp",
    "completion",
)
"""Names of sub-commands, for a quick look at the arguments; `flags.py` has their help."""
