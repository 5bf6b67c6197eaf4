"""Write the sections of `.github/REFERENCE.md` that follow from tables of the code.

python -m agentcli.cli.reference            print it
python -m agentcli.cli.reference --write    write the file
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.cli import COMMANDS
from agentcli.cli.app import commands_in, examples_of, find_command, flag_rows, summary, usage_line
from agentcli.cli.flags import GROUPS
from agentcli.cli.help import EXIT_CODES, GENERAL_EXAMPLES, HelpRow, flag_row
from agentcli.cli.output import echo
from agentcli.commands.registry import COMMANDS as SLASH_COMMANDS
from agentcli.config.schema import KEYS, Key

FILE = Path(__file__).parents[2] / ".github" / "REFERENCE.md"


def reference(text: str) -> str:
    """The reference, with the sections that follow from the code written again; variables and files are kept."""
    written = {
        "Flags": _flags(),
        "Sub-commands": _commands(),
        "Slash commands": _slash_commands(),
        "Keys": _keys(),
        "Settings": _settings(),
        "Exit codes": _table(("code", ""), EXIT_CODES),
    }
    introduction, *sections = text.rstrip().split("\n\n## ")
    bodies = [introduction]
    for section in sections:
        title, _blank, body = section.partition("\n\n")
        bodies.append(f"{title}\n\n{written.get(title, body)}")
    return "\n\n## ".join(bodies) + "\n"


def _flags() -> str:
    tables = [
        f"**{group}**\n\n{_table(('flag', ''), ((_code(term), text) for term, text in map(flag_row, flags)))}"
        for group, flags in GROUPS.items()
    ]
    return "\n\n".join([_examples(GENERAL_EXAMPLES), *tables])


def _commands() -> str:
    rows: list[HelpRow] = []
    examples: list[HelpRow] = []
    for name, text in COMMANDS.items():
        examples += examples_of(find_command([name]))
        for path in [[name, word] for word in commands_in(find_command([name]))] or [[name]]:
            command = find_command(path)
            about = text if len(path) == 1 else summary(command)
            own = ", ".join(_code(term) for term, _text in flag_rows(command))
            rows.append((_code(usage_line(path).replace(" [FLAGS]", "")), f"{about} {own}".rstrip()))
    return f"{_table(('command', ''), rows)}\n\n{_examples(examples)}"


def _examples(examples: Sequence[HelpRow]) -> str:
    lines = "\n".join(f"{line:<70} # {text}" for line, text in examples)
    return f"```sh\n{lines}\n```"


def _slash_commands() -> str:
    rows = []
    for command in SLASH_COMMANDS:
        also = f" Also {', '.join(_code(f'/{alias}') for alias in command.aliases)}." if command.aliases else ""
        about = command.manual.partition("\n\n")[0]
        rows.append((_code(command.usage), f"{command.summary}.{also} {about}"))
    return _table(("command", ""), rows)


def _keys() -> str:
    from agentcli.tui.keys import PROMPT_KEYS, SCREEN_KEYS, format_keys

    rows = [(format_keys(key.keys), f"{key.help} {_code(key.id)}") for key in SCREEN_KEYS]
    rows += [(format_keys(key.keys), f"{key.help} {_code(key.id)}") for key in PROMPT_KEYS]
    about = 'To change a key, use the name of its action in the `keymap` setting: `{"screen.details": "ctrl+e"}`.'
    return f"{about}\n\n{_table(('key', 'action'), rows)}"


def _settings() -> str:
    about = "Settings marked Live apply to a running session at once, the others in the next one."
    table = _table(("setting", "", "default", "variable"), (_format_setting(key) for key in KEYS))
    return f"{about}\n\n{table}"


def _format_setting(key: Key) -> tuple[str, ...]:
    choices = f" One of {', '.join(map(_code, key.choices))}." if key.choices else ""
    default = "" if key.default is None or key.default in ((), {}) else _code(json.dumps(key.default))
    live = " Live." if key.applies == "now" else ""
    return _code(key.name), f"{key.doc}{choices}{live}", default, ", ".join(map(_code, key.environment))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(reference(FILE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        echo(reference(FILE.read_text(encoding="utf-8")))
