"""Variables of the environment that mean something beside those of single settings, and the files that are read and
written: for people, in the reference. Whoever reads one does so itself; here is only what it is for."""

from __future__ import annotations

from agentcli.core.frozen import frozen


@frozen
class Named:
    names: tuple[str, ...]
    doc: str


VARIABLES: tuple[Named, ...] = (
    Named(("ANTHROPIC_API_KEY",), "The API key. Overrides one stored by `agentcli login`."),
    Named(("ANTHROPIC_AUTH_TOKEN",), "A bearer token. Overrides the API key."),
    Named(("ANTHROPIC_BASE_URL",), "The server that requests go to."),
    Named(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"), "Proxies, and hosts that need none."),
    Named(("SSL_CERT_FILE",), "Certificates to trust instead of the usual ones."),
    Named(("AGENTCLI_CONFIG_DIR",), "Folder for your settings and themes, instead of `~/.config/agentcli`."),
    Named(
        ("AGENTCLI_STATE_DIR",), "Folder for sessions, history and stored keys, instead of `~/.local/state/agentcli`."
    ),
    Named(("AGENTCLI_CACHE_DIR",), "Folder for cached data, instead of `~/.cache/agentcli`."),
    Named(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), "Default parents of those folders."),
    Named(("AGENTCLI_SCRIPT",), "A script that replaces the model, without key or network: for tests and demos."),
    Named(("VISUAL", "EDITOR"), "The editor that Ctrl+G opens."),
    Named(("NO_COLOR",), "If set, output has no colours."),
    Named(("TERM", "COLORTERM"), "Terminal capabilities; `dumb` or no value starts plain mode."),
    Named(("COLORFGBG",), "Terminal background, if the terminal does not report it."),
    Named(("ESCDELAY",), "Milliseconds to wait after Esc for the rest of a key sequence."),
    Named(("INPUTRC",), "Readline settings file, instead of `~/.inputrc`; `--plain` uses its vi mode."),
    Named(("TMPDIR",), "Parent of the private temp folder for a session's commands."),
)

SET_FOR_COMMANDS: tuple[Named, ...] = (
    Named(("AGENTCLI_SESSION", "AGENTCLI_CALL"), "The session and the tool call that started a command."),
    Named(("AGENTCLI_SANDBOXED",), "Set inside the sandbox."),
    Named(("AGENTCLI_PROCESSES",), "Set inside a sandbox with a proxy: the number of the sandbox's own processes."),
)

FILES: tuple[Named, ...] = (
    Named(("~/.config/agentcli/settings.json",), "Your settings."),
    Named(("~/.config/agentcli/themes/NAME.toml",), "Your themes."),
    Named(("~/.config/agentcli/AGENTS.md", "~/.claude/CLAUDE.md"), "Instructions for the model in every project."),
    Named((".agentcli/settings.json",), "A project's shared settings; active once you trust the folder."),
    Named((".agentcli/settings.local.json",), "A project's settings for you only."),
    Named(("AGENTS.md", "CLAUDE.md"), "Instructions for the model in a project, from its root down."),
    Named(("/etc/agentcli/settings.json",), "Settings of the machine's administrator; they override all others."),
    Named(("~/.local/state/agentcli/sessions/",), "One append-only file per session, and outputs too large for it."),
    Named(("~/.local/state/agentcli/snapshots/",), "Copies of files before they were changed, for /undo."),
    Named(("~/.local/state/agentcli/memory/",), "Notes kept by the agent, one folder per project."),
    Named(("~/.local/state/agentcli/quarantine/",), "Files that commands planted, moved out of your folders."),
    Named(("~/.local/state/agentcli/history/",), "Prompts you sent, one file per project."),
    Named(("~/.local/state/agentcli/drafts/",), "Unsent prompts."),
    Named(("~/.local/state/agentcli/credentials.json",), "Keys stored by `agentcli login` if there is no keyring."),
    Named(("~/.local/state/agentcli/trust.json",), "Trusted folders and the content you trusted."),
    Named(("~/.local/state/agentcli/crashes/",), "Crash reports."),
    Named(("~/.cache/agentcli/",), "Cached data; safe to delete."),
)
