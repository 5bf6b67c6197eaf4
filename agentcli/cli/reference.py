"""Generate the reference from the tables that the code uses.

python -m agentcli.cli.reference            print it
python -m agentcli.cli.reference --write    put it between the markers of README.md
python -m agentcli.cli.reference --check    exit 1 if README.md has another one
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.cli import COMMANDS
from agentcli.cli.app import command_tree, manual_of
from agentcli.cli.exits import EXIT_CODES
from agentcli.cli.flags.examples import GENERAL, OF_COMMANDS
from agentcli.cli.flags.helptext import flag_row
from agentcli.cli.flags.table import FLAGS, GROUPS
from agentcli.cli.output import echo
from agentcli.commands.registry import COMMANDS as SLASH_COMMANDS
from agentcli.config.environment import FILES, SET_FOR_COMMANDS, VARIABLES, ReferenceEntry
from agentcli.config.schema import KEYS, Key

BEGIN, END = "<!-- reference:begin -->", "<!-- reference:end -->"
_BY = "<!-- Written by `python -m agentcli.cli.reference --write`; a test compares it with the code. -->"


def reference() -> str:
    """The reference as Markdown, without the markers."""
    parts = [
        _BY,
        _folded("Flags", _flags()),
        _folded("Sub-commands", _commands()),
        _folded("Slash commands", _slash_commands()),
        _folded("Keys", _keys()),
        _folded("Settings", _table(("setting", "", "default", "variable"), (_setting(key) for key in KEYS))),
        _folded("Environment variables", _variables()),
        _folded("Files", _table(("file", ""), (_named(file) for file in FILES))),
        _folded("Exit codes", _table(("code", ""), EXIT_CODES)),
    ]
    return "\n\n".join(parts)


def _flags() -> str:
    examples = "\n".join(f"{one.line:<70} # {one.text}" for one in GENERAL)
    tables = [f"```sh\n{examples}\n```"]
    for group in GROUPS:
        rows = [flag_row(flag) for flag in FLAGS if flag.group == group]
        tables.append(f"**{group}**\n\n{_table(('flag', ''), ((_code(term), text) for term, text in rows))}")
    return "\n\n".join(tables)


def _commands() -> str:
    tree = command_tree()
    rows: list[tuple[str, str]] = []
    for name, summary in COMMANDS.items():
        group = getattr(tree.commands[name], "commands", None) or {}
        paths = [[name, inner] for inner in group] or [[name]]
        for path in paths:
            manual = manual_of(path, tree)
            flags = next(section.rows for section in manual.sections if section.heading == "Flags")
            own = [_code(term) for term, _text in flags if "--help" not in term]
            about = summary if len(path) == 1 else manual.about
            first = about.split("\n\n")[0].replace("\n", " ")
            rows.append((_code(manual.usage.replace(" [FLAGS]", "")), f"{first} {', '.join(own)}".rstrip()))
    examples = "\n".join(f"{one.line:<70} # {one.text}" for name in COMMANDS for one in OF_COMMANDS.get(name, ()))
    return f"{_table(('command', ''), rows)}\n\n```sh\n{examples}\n```"


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


def _setting(key: Key) -> tuple[str, ...]:
    choices = f" One of {', '.join(map(_code, key.choices))}." if key.choices else ""
    default = "" if key.default is None or key.default in ((), {}) else _code(json.dumps(key.default))
    live = " Live." if key.applies == "now" else ""
    return _code(key.name), f"{key.doc}{choices}{live}", default, ", ".join(map(_code, key.environment))


def _variables() -> str:
    table = _table(("variable", ""), (_named(one) for one in VARIABLES))
    given = _table(("variable", ""), (_named(one) for one in SET_FOR_COMMANDS))
    others = "See the settings table for the variables of settings."
    return f"{table}\n\n{others} agentcli sets these for commands and hooks:\n\n{given}"


def _named(one: ReferenceEntry) -> tuple[str, str]:
    return ", ".join(map(_code, one.names)), one.doc


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`"


def with_reference(text: str) -> str:
    """Replace the text between the markers of a document. Raises ValueError if there are none."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"There is no place for the reference. Put {BEGIN} and {END} into the file.")
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m agentcli.cli.reference", description="The reference of agentcli.")
    parser.add_argument("--write", action="store_true", help="write it between the markers of the file")
    parser.add_argument("--check", action="store_true", help="exit 1 if the file has another one")
    parser.add_argument("file", nargs="?", type=Path, default=Path("README.md"), metavar="FILE")
    options = parser.parse_args(arguments)
    if not (options.write or options.check):
        echo(reference())
        return 0
    text = options.file.read_text(encoding="utf-8")
    try:
        fresh = with_reference(text)
    except ValueError as error:
        echo(f"{options.file}: {error}", err=True)
        return 1
    if fresh == text:
        return 0
    if options.check:
        echo(f"{options.file} is not what the code says. Run: python -m agentcli.cli.reference --write", err=True)
        return 1
    options.file.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
