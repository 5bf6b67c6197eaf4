"""The command line: parses arguments, builds `Options`, imports exactly one front end.

`main` leads from the arguments to the exit code. `flags` has the table of flags and its parser; `help`, `complete` and
`reference` show that table. `front_ends` starts the app, plain mode or a headless run; `app` the typer sub-commands.
"""

COMMANDS = {
    "help": "Show help for agentcli or a command.",
    "demo": "Try the app on a temporary project, without a key or network.",
    "login": "Check and store an API key.",
    "logout": "Remove the stored API key.",
    "status": "Show the model, server and key in use.",
    "doctor": "Check this installation and test the sandbox.",
    "sessions": "Find, show and manage saved sessions.",
    "trace": "Show a prompt of a session as a timeline, or export it.",
    "bisect": "Find the call of a session that broke something.",
    "blame": "Show which prompt and call wrote each line of a file.",
    "replay": "Replay a session offline and compare it with the record.",
    "config": "Show all settings and their sources.",
    "permissions": "List permission rules, or test them on a command.",
    "trust": "Review and trust a repository's settings.",
    "quarantine": "List and restore files that the sandbox moved away.",
    "plugins": "List Python plugins, or write an example of one.",
    "mcp": "Add, list, test and remove MCP servers; serve the tools of agentcli.",
    "completion": "Print a shell completion script.",
}
"""Sub-commands with their help; `app.py` has one function for each. Here, because every start needs the names."""
