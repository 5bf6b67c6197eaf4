"""Variables of the environment that mean something beside those of single settings, and the files that are read and
written: for people, in the reference. Whoever reads one does so itself; here is only what it is for."""

from __future__ import annotations

from agentcli.core.frozen import frozen


@frozen
class Named:
    names: tuple[str, ...]
    doc: str


VARIABLES: tuple[Named, ...] = (
    Named(("ANTHROPIC_API_KEY",), "The API key. Wins over one that `agentcli login` kept."),
    Named(("ANTHROPIC_AUTH_TOKEN",), "A bearer token instead of a key. Wins over the key."),
    Named(("ANTHROPIC_BASE_URL",), "The server that requests go to."),
    Named(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"), "Proxies, and hosts that need none."),
    Named(("SSL_CERT_FILE",), "Certificates to trust instead of the usual ones."),
    Named(("AGENTCLI_CONFIG_DIR",), "The folder of your settings and themes, instead of `~/.config/agentcli`."),
    Named(
        ("AGENTCLI_STATE_DIR",), "The folder of sessions, history and kept keys, instead of `~/.local/state/agentcli`."
    ),
    Named(("AGENTCLI_CACHE_DIR",), "The folder of what can be thrown away, instead of `~/.cache/agentcli`."),
    Named(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), "Where those folders are by default."),
    Named(("AGENTCLI_SCRIPT",), "A script that plays the model: no key and no network, for tests and demonstrations."),
    Named(("VISUAL", "EDITOR"), "The editor that Ctrl+G opens."),
    Named(("NO_COLOR",), "If it is not empty, nothing has colours."),
    Named(("TERM", "COLORTERM"), "What the terminal can do; `dumb` or nothing gets plain lines."),
    Named(("COLORFGBG",), "Whether the terminal is light or dark, where it does not answer."),
    Named(("ESCDELAY",), "Milliseconds to wait whether Esc is the beginning of another key."),
    Named(("INPUTRC",), "The file of readline's settings, instead of `~/.inputrc`: with `--plain` its vi keys hold."),
    Named(("TMPDIR",), "Where the private temp folder of a session's commands is made."),
)

SET_FOR_COMMANDS: tuple[Named, ...] = (
    Named(("AGENTCLI_SESSION", "AGENTCLI_CALL"), "The session and the call that a command was started by."),
    Named(("AGENTCLI_SANDBOXED",), "Set inside of the sandbox."),
    Named(("AGENTCLI_PROCESSES",), "Set inside of a sandbox with a proxy: how many processes are the sandbox's own."),
)

FILES: tuple[Named, ...] = (
    Named(("~/.config/agentcli/settings.json",), "Your settings."),
    Named(("~/.config/agentcli/themes/NAME.toml",), "Your themes."),
    Named(("~/.config/agentcli/AGENTS.md", "~/.claude/CLAUDE.md"), "What the model should know in every project."),
    Named((".agentcli/settings.json",), "A project's settings, for everybody; they hold once you trust the folder."),
    Named((".agentcli/settings.local.json",), "A project's settings, for you alone."),
    Named(("AGENTS.md", "CLAUDE.md"), "What the model should know about a project, from its root down."),
    Named(("/etc/agentcli/settings.json",), "Settings of whoever runs the machine; they win over all others."),
    Named(("~/.local/state/agentcli/sessions/",), "One append-only file a session, and outputs too large for it."),
    Named(("~/.local/state/agentcli/snapshots/",), "Copies of files before they were changed, for /undo."),
    Named(("~/.local/state/agentcli/memory/",), "Notes that the agent keeps, a folder for each project."),
    Named(("~/.local/state/agentcli/quarantine/",), "Files that commands planted, moved out of your folders."),
    Named(("~/.local/state/agentcli/history/",), "What you have sent, a file for each project."),
    Named(("~/.local/state/agentcli/drafts/",), "What you have typed and not sent."),
    Named(("~/.local/state/agentcli/credentials.json",), "Keys that `agentcli login` kept, where there is no keyring."),
    Named(("~/.local/state/agentcli/trust.json",), "Which folders you trust, and with which content."),
    Named(("~/.local/state/agentcli/crashes/",), "Reports about mistakes of agentcli itself."),
    Named(("~/.cache/agentcli/",), "What can be thrown away."),
)
