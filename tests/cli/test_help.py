"""The help says what the code does: every flag, command and example in it is tried against the parsers."""

from __future__ import annotations

import os
import re
import shlex

import pytest

from agentcli.cli import COMMANDS
from agentcli.cli.flags import BY_NAME, FLAGS, GROUPS, parse, parse_words
from agentcli.cli.help import COMMAND_EXAMPLES, GENERAL_EXAMPLES, MIN_WIDTH, examples_of, flag_row, root_help
from agentcli.cli.main import main
from agentcli.cli.subcommands import SUBCOMMANDS, command_help, find_command

EXAMPLES = [line for line, _text in (*GENERAL_EXAMPLES, *COMMAND_EXAMPLES)]


def paths() -> list[list[str]]:
    """Every sub-command, and every group of them."""
    return [name.split() for one in SUBCOMMANDS for name in dict.fromkeys((one.path.split()[0], one.path))]


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


def test_both_tables_of_commands_have_the_same() -> None:
    assert set(COMMANDS) == {one.path.split()[0] for one in SUBCOMMANDS}


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
    known, length = find_command(parsed.command)
    assert known is not None
    parse_words(parsed.command[length:], known.flags)


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
    command, _length = find_command(path)
    for flag in command.flags if command is not None else ():
        assert all(name in shown for name in flag.names)


def test_a_mistyped_command_of_any_depth_is_corrected(capfd: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["help", "docter"], "Did you mean doctor?"),
        (["help", "sessions", "lst"], "Did you mean list?"),
        (["sessions", "lst"], "Did you mean list?"),
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
