"""Reference texts for the files of agentcli and for environment variables other than those of single settings."""

from __future__ import annotations

from agentcli.core.frozen import frozen


@frozen
class ReferenceEntry:
    names: tuple[str, ...]
    doc: str


VARIABLES: tuple[ReferenceEntry, ...] = (
    ReferenceEntry(("ANTHROPIC_API_KEY",), "The API key. Overrides one stored by `agentcli login`."),
    ReferenceEntry(("ANTHROPIC_AUTH_TOKEN",), "A bearer token. Overrides the API key."),
    ReferenceEntry(("ANTHROPIC_BASE_URL",), "The server that requests go to."),
    ReferenceEntry(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"), "Proxies, and hosts that need none."),
    ReferenceEntry(("SSL_CERT_FILE",), "Certificates to trust instead of the usual ones."),
    ReferenceEntry(("AGENTCLI_CONFIG_DIR",), "Folder for your settings and themes, instead of `~/.config/agentcli`."),
    ReferenceEntry(
        ("AGENTCLI_STATE_DIR",), "Folder for sessions, history and stored keys, instead of `~/.local/state/agentcli`."
    ),
    ReferenceEntry(("AGENTCLI_CACHE_DIR",), "Folder for cached data, instead of `~/.cache/agentcli`."),
    ReferenceEntry(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), "Default parents of those folders."),
    ReferenceEntry(
        ("AGENTCLI_SCRIPT",), "A script that replaces the model, without key or network: for tests and demos."
    ),
    ReferenceEntry(
        ("MCP_TIMEOUT",),
        "Milliseconds for an MCP server to start (default 30000), and for -p to wait for it (default 10000).",
    ),
    ReferenceEntry(("MCP_TOOL_TIMEOUT",), "Milliseconds for one MCP tool call; default 600000."),
    ReferenceEntry(
        ("MCP_PROTOCOL_NEGOTIATION",),
        "`auto`: try the newest protocol first with MCP servers over stdio, as over HTTP.",
    ),
    ReferenceEntry(("VISUAL", "EDITOR"), "The editor that Ctrl+G opens."),
    ReferenceEntry(("NO_COLOR",), "If set, output has no colours."),
    ReferenceEntry(("TERM", "COLORTERM"), "Terminal capabilities. A TERM of `dumb`, or none, starts plain mode."),
    ReferenceEntry(("COLORFGBG",), "Terminal background, if the terminal does not report it."),
    ReferenceEntry(("ESCDELAY",), "Milliseconds to wait after Esc for the rest of a key sequence."),
    ReferenceEntry(("INPUTRC",), "Readline settings file, instead of `~/.inputrc`; `--plain` uses its vi mode."),
    ReferenceEntry(("TMPDIR",), "Parent of the private temp folder for a session's commands."),
)

SET_FOR_COMMANDS: tuple[ReferenceEntry, ...] = (
    ReferenceEntry(("AGENTCLI_SESSION", "AGENTCLI_CALL"), "The session and the tool call that started a command."),
    ReferenceEntry(("AGENTCLI_PROJECT_DIR", "CLAUDE_PROJECT_DIR"), "Set for hooks: the project's root."),
    ReferenceEntry(("AGENTCLI_SANDBOXED",), "Set inside the sandbox."),
    ReferenceEntry(
        ("AGENTCLI_PROCESSES",), "Set inside a sandbox with a proxy: how many processes the sandbox itself runs."
    ),
)

FILES: tuple[ReferenceEntry, ...] = (
    ReferenceEntry(("~/.config/agentcli/settings.json",), "Your settings."),
    ReferenceEntry(("~/.config/agentcli/themes/NAME.toml",), "Your themes."),
    ReferenceEntry(
        ("~/.config/agentcli/plugins/NAME.py", ".agentcli/plugins/NAME.py"),
        "Python plugins: yours, and a project's once you trust exactly their content.",
    ),
    ReferenceEntry(
        ("~/.config/agentcli/AGENTS.md", "~/.claude/CLAUDE.md"), "Instructions for the model in every project."
    ),
    ReferenceEntry((".agentcli/settings.json",), "A project's shared settings; active once you trust the folder."),
    ReferenceEntry((".agentcli/settings.local.json",), "A project's settings for you only."),
    ReferenceEntry((".mcp.json",), "A project's shared MCP servers; they start once you trust exactly this content."),
    ReferenceEntry(("AGENTS.md", "CLAUDE.md"), "Instructions for the model in a project, from its root down."),
    ReferenceEntry(
        ("/etc/agentcli/settings.json",), "Settings of the machine's administrator; they override all others."
    ),
    ReferenceEntry(
        ("~/.local/state/agentcli/sessions/",), "One append-only file per session, and outputs too large for it."
    ),
    ReferenceEntry(("~/.local/state/agentcli/snapshots/",), "Copies of files before they were changed, for /undo."),
    ReferenceEntry(("~/.local/state/agentcli/memory/",), "Notes kept by the agent, one folder per project."),
    ReferenceEntry(("~/.local/state/agentcli/worktrees/",), "Git worktrees with changes, from `--worktree`."),
    ReferenceEntry(("~/.local/state/agentcli/quarantine/",), "Quarantined files of sandboxed commands."),
    ReferenceEntry(("~/.local/state/agentcli/history/",), "Prompts you sent, one file per project."),
    ReferenceEntry(("~/.local/state/agentcli/drafts/",), "Unsent prompts."),
    ReferenceEntry(
        ("~/.local/state/agentcli/credentials.json",), "Keys stored by `agentcli login` if there is no keyring."
    ),
    ReferenceEntry(
        ("~/.local/state/agentcli/mcp-tokens.json",), "Tokens of MCP servers you signed in to, if there is no keyring."
    ),
    ReferenceEntry(("~/.local/state/agentcli/trust.json",), "Trusted folders and the content you trusted."),
    ReferenceEntry(
        ("~/.local/state/agentcli/mcp-choices.json",), "MCP servers and tools that you switched on or off, per project."
    ),
    ReferenceEntry(("~/.local/state/agentcli/crashes/",), "Crash reports."),
    ReferenceEntry(("~/.local/state/agentcli/plugins.log",), "Tracebacks of plugins."),
    ReferenceEntry(("~/.cache/agentcli/",), "Cached data; safe to delete."),
)
