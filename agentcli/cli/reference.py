"""Generate `.github/REFERENCE.md` from the tables that the code uses.

python -m agentcli.cli.reference            print it
python -m agentcli.cli.reference --write    write the file
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agentcli.cli import COMMANDS
from agentcli.cli.app import find_command, flag_rows, usage_line
from agentcli.cli.flags import GROUPS
from agentcli.cli.help import COMMAND_EXAMPLES, EXIT_CODES, GENERAL_EXAMPLES, HelpRow, flag_row
from agentcli.cli.output import echo
from agentcli.commands.registry import COMMANDS as SLASH_COMMANDS
from agentcli.config.schema import KEYS, Key

FILE = Path(__file__).parents[2] / ".github" / "REFERENCE.md"
_INTRODUCTION = """# Reference

<!-- Written by `python -m agentcli.cli.reference --write`; a test compares it with the code. -->

[Flags](#flags) · [Sub-commands](#sub-commands) · [Slash commands](#slash-commands) · [Keys](#keys) ·
[Settings](#settings) · [Environment variables](#environment-variables) · [Files](#files) · [Exit codes](#exit-codes)"""

VARIABLES: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "The API key. Overrides one stored by `agentcli login`.",
    "ANTHROPIC_AUTH_TOKEN": "A bearer token. Overrides the API key.",
    "ANTHROPIC_BASE_URL": "The server that requests go to.",
    "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY": "Proxies, and hosts that need none.",
    "SSL_CERT_FILE": "Certificates to trust instead of the usual ones.",
    "AGENTCLI_CONFIG_DIR": "Folder for your settings and themes, instead of `~/.config/agentcli`.",
    "AGENTCLI_STATE_DIR": "Folder for sessions, history and stored keys, instead of `~/.local/state/agentcli`.",
    "AGENTCLI_CACHE_DIR": "Folder for cached data, instead of `~/.cache/agentcli`.",
    "XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_CACHE_HOME": "Default parents of those folders.",
    "AGENTCLI_SCRIPT": "A script that replaces the model, without key or network: for tests and demos.",
    "MCP_TIMEOUT": "Milliseconds for an MCP server to start (default 30000), and for -p to wait (default 10000).",
    "MCP_TOOL_TIMEOUT": "Milliseconds for one MCP tool call; default 600000.",
    "MCP_PROTOCOL_NEGOTIATION": "`auto`: try the newest protocol first with MCP servers over stdio, as over HTTP.",
    "VISUAL, EDITOR": "The editor that Ctrl+G opens.",
    "NO_COLOR": "If set, output has no colours.",
    "TERM, COLORTERM": "Terminal capabilities. A TERM of `dumb`, or none, starts plain mode.",
    "COLORFGBG": "Terminal background, if the terminal does not report it.",
    "ESCDELAY": "Milliseconds to wait after Esc for the rest of a key sequence.",
    "INPUTRC": "Readline settings file, instead of `~/.inputrc`; `--plain` uses its vi mode.",
    "TMPDIR": "Parent of the private temp folder for a session's commands.",
}
"""Environment variables other than those of single settings."""

SET_FOR_COMMANDS: Mapping[str, str] = {
    "AGENTCLI_SESSION, AGENTCLI_CALL": "The session and the tool call that started a command.",
    "AGENTCLI_PROJECT_DIR, CLAUDE_PROJECT_DIR": "Set for hooks: the project's root.",
    "AGENTCLI_SANDBOXED": "Set inside the sandbox.",
    "AGENTCLI_PROCESSES": "Set inside a sandbox with a proxy: how many processes the sandbox itself runs.",
}
"""Variables that agentcli sets for commands and hooks."""

FILES: Mapping[str, str] = {
    "~/.config/agentcli/settings.json": "Your settings.",
    "~/.config/agentcli/themes/NAME.toml": "Your themes.",
    "~/.config/agentcli/plugins/NAME.py, .agentcli/plugins/NAME.py": "Plugins; a project's once you trust them.",
    "~/.config/agentcli/AGENTS.md, ~/.claude/CLAUDE.md": "Instructions for the model in every project.",
    ".agentcli/settings.json": "A project's shared settings; active once you trust the folder.",
    ".agentcli/settings.local.json": "A project's settings for you only.",
    ".mcp.json": "A project's shared MCP servers; they start once you trust exactly this content.",
    "AGENTS.md, CLAUDE.md": "Instructions for the model in a project, from its root down.",
    "/etc/agentcli/settings.json": "Settings of the machine's administrator; they override all others.",
    "~/.local/state/agentcli/sessions/": "One append-only file per session, and outputs too large for it.",
    "~/.local/state/agentcli/snapshots/": "Copies of files before they were changed, for /undo.",
    "~/.local/state/agentcli/memory/": "Notes kept by the agent, one folder per project.",
    "~/.local/state/agentcli/worktrees/": "Git worktrees with changes, from `--worktree`.",
    "~/.local/state/agentcli/quarantine/": "Quarantined files of sandboxed commands.",
    "~/.local/state/agentcli/history/": "Prompts you sent, one file per project.",
    "~/.local/state/agentcli/drafts/": "Unsent prompts.",
    "~/.local/state/agentcli/credentials.json": "Keys stored by `agentcli login` if there is no keyring.",
    "~/.local/state/agentcli/mcp-tokens.json": "Tokens of MCP servers you signed in to, if there is no keyring.",
    "~/.local/state/agentcli/trust.json": "Trusted folders and the content you trusted.",
    "~/.local/state/agentcli/mcp-choices.json": "MCP servers and tools that you switched on or off, per project.",
    "~/.local/state/agentcli/crashes/": "Crash reports.",
    "~/.local/state/agentcli/plugins.log": "Tracebacks of plugins.",
    "~/.cache/agentcli/": "Cached data; safe to delete.",
}
"""Files of agentcli."""


def reference() -> str:
    """The reference as Markdown."""
    sections = {
        "Flags": _flags(),
        "Sub-commands": _commands(),
        "Slash commands": _slash_commands(),
        "Keys": _keys(),
        "Settings": _settings(),
        "Environment variables": _variables(),
        "Files": _table(("file", ""), _entries(FILES)),
        "Exit codes": _table(("code", ""), EXIT_CODES),
    }
    return "\n\n".join([_INTRODUCTION, *(f"## {title}\n\n{body}" for title, body in sections.items())]) + "\n"


def _flags() -> str:
    tables = [
        f"**{group}**\n\n{_table(('flag', ''), ((_code(term), text) for term, text in map(flag_row, flags)))}"
        for group, flags in GROUPS.items()
    ]
    return "\n\n".join([_examples(GENERAL_EXAMPLES), *tables])


def _commands() -> str:
    rows: list[HelpRow] = []
    for name, summary in COMMANDS.items():
        inner = getattr(find_command([name]), "commands", None) or {}
        for path in [[name, word] for word in inner] or [[name]]:
            command = find_command(path)
            about = summary if len(path) == 1 else (command.help or "").split("\n\n")[0]
            own = ", ".join(_code(term) for term, _text in flag_rows(command))
            rows.append((_code(usage_line(path).replace(" [FLAGS]", "")), f"{about} {own}".rstrip()))
    return f"{_table(('command', ''), rows)}\n\n{_examples(COMMAND_EXAMPLES)}"


def _examples(examples: Sequence[HelpRow]) -> str:
    lines = "\n".join(f"{line:<70} # {text}" for line, text in examples)
    return f"```sh\n{lines}\n```"


def _slash_commands() -> str:
    rows = []
    for command in SLASH_COMMANDS:
        also = f" Also {', '.join(_code(f'/{alias}') for alias in command.aliases)}." if command.aliases else ""
        rows.append((_code(command.usage), f"{command.summary}.{also} {command.manual.text}"))
    return _table(("command", ""), rows)


def _keys() -> str:
    from agentcli.tui.keys import PROMPT_KEYS, SCREEN_KEYS, shown_keys

    rows = [(shown_keys(key.keys), f"{key.help} {_code(key.id)}") for key in SCREEN_KEYS]
    rows += [(shown_keys(key.keys), f"{key.help} {_code(key.id)}") for key in PROMPT_KEYS]
    about = 'To change a key, use the name of its action in the `keymap` setting: `{"screen.details": "ctrl+e"}`.'
    return f"{about}\n\n{_table(('key', 'action'), rows)}"


def _settings() -> str:
    about = "Settings marked Live apply to a running session at once, the others in the next one."
    table = _table(("setting", "", "default", "variable"), (_setting(key) for key in KEYS))
    return f"{about}\n\n{table}"


def _setting(key: Key) -> tuple[str, ...]:
    choices = f" One of {', '.join(map(_code, key.choices))}." if key.choices else ""
    default = "" if key.default is None or key.default in ((), {}) else _code(json.dumps(key.default))
    live = " Live." if key.applies == "now" else ""
    return _code(key.name), f"{key.doc}{choices}{live}", default, ", ".join(map(_code, key.environment))


def _variables() -> str:
    table = _table(("variable", ""), _entries(VARIABLES))
    given = _table(("variable", ""), _entries(SET_FOR_COMMANDS))
    others = "See the settings table for the variables of settings."
    return f"{table}\n\n{others} agentcli sets these for commands and hooks:\n\n{given}"


def _entries(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for names, text in table.items():
        yield ", ".join(map(_code, names.split(", "))), text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(reference(), encoding="utf-8")
    else:
        echo(reference())
