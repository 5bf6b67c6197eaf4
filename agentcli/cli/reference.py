"""Generate `.github/REFERENCE.md` from the tables that the code uses.

python -m agentcli.cli.reference            print it
python -m agentcli.cli.reference --write    write the file
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.cli import COMMANDS
from agentcli.cli.app import find_command, flag_rows, usage_line
from agentcli.cli.flags import GROUPS
from agentcli.cli.help import COMMAND_EXAMPLES, EXIT_CODES, GENERAL_EXAMPLES, HelpRow, flag_row
from agentcli.cli.output import echo
from agentcli.commands.registry import COMMANDS as SLASH_COMMANDS
from agentcli.config.environment import FILES, SET_FOR_COMMANDS, VARIABLES, ReferenceEntry
from agentcli.config.schema import KEYS, Key

FILE = Path(__file__).parents[2] / ".github" / "REFERENCE.md"
_INTRODUCTION = """# Reference

<!-- Written by `python -m agentcli.cli.reference --write`; a test compares it with the code. -->

[Flags](#flags) · [Sub-commands](#sub-commands) · [Slash commands](#slash-commands) · [Keys](#keys) ·
[Settings](#settings) · [Environment variables](#environment-variables) · [Files](#files) · [Exit codes](#exit-codes)"""


def reference() -> str:
    """The reference as Markdown."""
    sections = {
        "Flags": _flags(),
        "Sub-commands": _commands(),
        "Slash commands": _slash_commands(),
        "Keys": _keys(),
        "Settings": _settings(),
        "Environment variables": _variables(),
        "Files": _table(("file", ""), (_entry(file) for file in FILES)),
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
    from agentcli.tui.keys import SCREEN_KEYS, shown_keys
    from agentcli.tui.prompt.keys import PROMPT_KEYS

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
    table = _table(("variable", ""), (_entry(one) for one in VARIABLES))
    given = _table(("variable", ""), (_entry(one) for one in SET_FOR_COMMANDS))
    others = "See the settings table for the variables of settings."
    return f"{table}\n\n{others} agentcli sets these for commands and hooks:\n\n{given}"


def _entry(one: ReferenceEntry) -> tuple[str, str]:
    return ", ".join(map(_code, one.names)), one.doc


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
