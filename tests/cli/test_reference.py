"""The reference is written from the code's own tables, and the tables know all that the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from agentcli.cli import COMMANDS
from agentcli.cli.complete import SCRIPTS
from agentcli.cli.flags import BY_NAME, COMPLETE_VARIABLE
from agentcli.cli.reference import FILE, FILES, SET_FOR_COMMANDS, VARIABLES, reference
from agentcli.commands.registry import COMMANDS as SLASH_COMMANDS
from agentcli.config.schema import KEYS

ROOT = Path(__file__).parents[2]


def test_the_reference_names_everything() -> None:
    text = reference()
    for name in BY_NAME:
        assert re.search(rf"[`\s]{re.escape(name)}[`,\s\[]", text), name
    assert all(f"`agentcli {name}" in text for name in COMMANDS)
    assert all(f"`{command.usage}`".replace("|", "\\|") in text for command in SLASH_COMMANDS)
    assert all(f"`{key.name}`" in text for key in KEYS)
    assert all(f"`{name}`" in text for names in (*VARIABLES, *SET_FOR_COMMANDS, *FILES) for name in names.split(", "))
    assert all(f"`{name}`" in text for key in KEYS for name in key.environment)


def test_tables_are_whole() -> None:
    text = reference()
    widths = set()
    for line in text.splitlines():
        if line.startswith("|"):
            widths.add(len(re.findall(r"(?<!\\)\|", line)) - 1)
    assert widths <= {2, 4}
    assert "\x1b" not in text


def test_every_agentcli_variable_is_in_a_table() -> None:
    known = {name for names in (*VARIABLES, *SET_FOR_COMMANDS) for name in names.split(", ")}
    known |= {name for key in KEYS for name in key.environment} | {COMPLETE_VARIABLE}
    read = set()
    for path in (ROOT / "agentcli").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search("AGENTCLI_|ANTHROPIC_", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read |= set(re.findall(r"\A_?(?:AGENTCLI|ANTHROPIC)_[A-Z_]*[A-Z]\Z", node.value))
    assert read - known == set()
    assert all(COMPLETE_VARIABLE in script for script in SCRIPTS.values())


def test_the_file_is_the_reference_of_this_code() -> None:
    assert FILE.read_text(encoding="utf-8") == reference(), "run: python -m agentcli.cli.reference --write"
