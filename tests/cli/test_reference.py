"""The reference is written from the code's own tables, and the tables know all that the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from agentcli.cli import COMMANDS
from agentcli.cli.flags.complete import SCRIPTS
from agentcli.cli.flags.table import BY_NAME, COMPLETE_VARIABLE
from agentcli.cli.reference import BEGIN, END, main, reference, with_reference
from agentcli.commands.registry import COMMANDS as SLASH_COMMANDS
from agentcli.config.environment import FILES, SET_FOR_COMMANDS, VARIABLES
from agentcli.config.schema import KEYS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_the_reference_names_everything() -> None:
    text = reference()
    for name in BY_NAME:
        assert re.search(rf"[`\s]{re.escape(name)}[`,\s\[]", text), name
    assert all(f"`agentcli {name}" in text for name in COMMANDS)
    assert all(f"`{command.usage}`".replace("|", "\\|") in text for command in SLASH_COMMANDS)
    assert all(f"`{key.name}`" in text for key in KEYS)
    assert all(f"`{name}`" in text for one in (*VARIABLES, *SET_FOR_COMMANDS, *FILES) for name in one.names)
    assert all(f"`{name}`" in text for key in KEYS for name in key.environment)


def test_tables_are_whole_and_sections_closed() -> None:
    text = reference()
    assert text.count("<details>") == text.count("</details>") > 6
    widths = set()
    for line in text.splitlines():
        if line.startswith("|"):
            widths.add(len(re.findall(r"(?<!\\)\|", line)) - 1)
    assert widths <= {2, 4}
    assert "\x1b" not in text


def test_every_agentcli_variable_is_in_a_table() -> None:
    known = {name for one in (*VARIABLES, *SET_FOR_COMMANDS) for name in one.names}
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


def test_only_the_text_between_the_markers_is_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert main(["--check", str(file)]) == 1
    assert main(["--write", str(file)]) == 0
    assert main(["--check", str(file)]) == 0
    text = file.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"\n{END}\nafter\n")
    assert "old" not in text.partition(BEGIN)[2].partition("\n")[0]
    assert with_reference(text) == text


def test_a_file_without_markers_is_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "README.md"
    file.write_text("no place")
    assert main(["--write", str(file)]) == 1
    assert "no place for the reference" in capfd.readouterr().err
    assert file.read_text() == "no place"


def test_the_readme_has_the_reference_of_this_code() -> None:
    assert main(["--check", str(README)]) == 0, "run: python -m agentcli.cli.reference --write"
