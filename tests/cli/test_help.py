"""The help says what the code does: every flag, command and example in it is tried against the parsers."""

from __future__ import annotations

import ast
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from agentcli.cli import COMMANDS
from agentcli.cli.app import command_help, command_tree, examples_of, find_command
from agentcli.cli.complete import shell_script
from agentcli.cli.flags import BY_NAME, COMPLETE_VARIABLE, FLAGS, GROUPS, SHELLS, parse
from agentcli.cli.help import GENERAL_EXAMPLES, MIN_WIDTH, flag_row, root_help
from agentcli.cli.main import main
from agentcli.cli.reference import FILE, reference
from agentcli.config.schema import KEYS

COMMAND_EXAMPLES = {name: list(examples_of(find_command([name]))) for name in COMMANDS}
EXAMPLES = [line for rows in (GENERAL_EXAMPLES, *COMMAND_EXAMPLES.values()) for line, _text in rows]


def paths() -> list[list[str]]:
    """Every sub-command, those of groups included."""
    found = []
    for name, command in command_tree().commands.items():
        found.append([name])
        found += [[name, inner] for inner in getattr(command, "commands", {})]
    return found


def test_every_flag_is_listed_in_its_group_with_its_choices() -> None:
    shown = root_help(100)
    for group in GROUPS:
        assert f"\n{group}:\n" in shown
    for flag in FLAGS:
        term, text = flag_row(flag)
        assert f"\n  {term}" in shown, term
        assert all(choice in text for choice in flag.choices), flag.key
        assert all(name in term for name in flag.names)
    assert all(f"\n  {name} " in shown for name in COMMANDS)


def test_the_help_lists_exactly_what_the_parser_accepts() -> None:
    shown = re.findall(r"^  (-[^\n]*?)(?:  |$)", root_help(100), re.MULTILINE)
    named = {name for term in shown for name in re.findall(r"(?<![\w-])--?[a-zA-Z][a-zA-Z-]*", term)}
    assert named == set(BY_NAME)


def test_the_table_of_commands_has_exactly_those_that_typer_has() -> None:
    assert set(COMMANDS) == set(command_tree().commands)


@pytest.mark.parametrize("width", [MIN_WIDTH, 40, 80, 100, 300])
def test_help_fits_the_terminal(width: int) -> None:
    for text in (root_help(width), *(command_help(path, width) for path in paths())):
        for line in text.splitlines():
            # A single word may be longer than a very narrow terminal, and is not torn.
            assert len(line) <= width or " " not in line.strip(), line
            assert line == line.rstrip()


def test_headings_are_bold_only_in_styled_help() -> None:
    assert "\x1b" not in root_help(80)
    assert "\x1b[1mExamples:\x1b[0m" in root_help(80, styled=True)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_understood(example: str) -> None:
    command = example.partition(" | ")[2] or example
    words = [os.path.expandvars(word) for word in shlex.split(re.split(" [<>]", command)[0])]
    assert words[0] == "agentcli"
    parsed = parse(words[1:])
    if not parsed.command:
        return
    known: Any = command_tree()
    rest = list(parsed.command)
    while rest and rest[0] in getattr(known, "commands", {}):
        known = known.commands[rest.pop(0)]
    known.make_context("agentcli", rest)


def test_every_command_has_examples_of_its_own() -> None:
    for name, rows in COMMAND_EXAMPLES.items():
        assert rows
        assert all(f"{line} ".startswith(f"agentcli {name} ") for line, _text in rows)


@pytest.mark.parametrize("path", paths(), ids=" ".join)
def test_every_command_has_a_help_with_all_its_flags(path: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"], os.environ) == 0
    shown = capfd.readouterr().out
    assert main(["help", *path], os.environ) == 0
    assert capfd.readouterr().out == shown
    assert shown.startswith(f"Usage: agentcli {' '.join(path)} ")
    command: Any = command_tree()
    for word in path:
        command = command.commands[word]
    for param in command.params:
        assert all(name in shown for name in param.opts if name.startswith("-"))
        assert param.help or param.hidden, f"{' '.join(path)}: {param.name} says nothing about itself"
    assert "<str>" not in shown


def test_a_mistyped_command_of_any_depth_is_corrected(capfd: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["help", "docter"], "Did you mean doctor?"),
        (["help", "sessions", "lst"], "Did you mean list?"),
        (["sessions", "lst"], "Did you mean 'list'?"),
        (["doctor", "--jsn"], "--json"),
        (["help", "zzz"], "agentcli help lists all commands."),
    ):
        assert main(words, os.environ) == 2, words
        assert said in capfd.readouterr().err


def test_a_group_alone_shows_its_help_and_a_dash_h_behind_two_dashes_is_a_value(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["permissions"], os.environ) == 0
    assert capfd.readouterr().out.startswith("Usage: agentcli permissions [FLAGS] COMMAND")
    assert main(["permissions", "test", "--", "-h"], os.environ) != 0
    assert "Usage" not in capfd.readouterr().out


ROOT = Path(__file__).parents[2]
TEXT = FILE.read_text(encoding="utf-8")


def test_tables_are_whole() -> None:
    widths = set()
    for line in TEXT.splitlines():
        if line.startswith("|"):
            widths.add(len(re.findall(r"(?<!\\)\|", line)) - 1)
    assert widths <= {2, 4}
    assert "\x1b" not in TEXT


def test_every_agentcli_variable_is_in_a_table() -> None:
    section = TEXT.partition("## Environment variables")[2].partition("\n## ")[0]
    known = set(re.findall("`([A-Z_]+)`", section)) | {COMPLETE_VARIABLE}
    known |= {name for key in KEYS for name in key.environment}
    read = set()
    for path in (ROOT / "agentcli").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search("AGENTCLI_|ANTHROPIC_", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read |= set(re.findall(r"\A_?(?:AGENTCLI|ANTHROPIC)_[A-Z_]*[A-Z]\Z", node.value))
    assert read - known == set()
    assert all(COMPLETE_VARIABLE in shell_script(shell) for shell in SHELLS)


def test_the_file_is_the_reference_of_this_code() -> None:
    assert reference(TEXT) == TEXT, "run: python -m agentcli.cli.reference --write"
