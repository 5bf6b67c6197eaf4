"""The help says what the code does: every flag, command and example in it is tried against the parsers."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

import pytest

from agentcli.cli import COMMANDS
from agentcli.cli.app import command_help, command_tree
from agentcli.cli.flags import BY_NAME, FLAGS, GROUPS, parse
from agentcli.cli.help import COMMAND_EXAMPLES, GENERAL_EXAMPLES, MIN_WIDTH, examples_of, flag_row, root_help
from agentcli.cli.main import main

EXAMPLES = [line for line, _text in (*GENERAL_EXAMPLES, *COMMAND_EXAMPLES)]


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


def test_every_command_has_examples_and_all_examples_a_command() -> None:
    assert [row for name in COMMANDS for row in examples_of([name])] == list(COMMAND_EXAMPLES)
    assert all(examples_of([name]) for name in COMMANDS)


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
