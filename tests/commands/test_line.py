"""A typed line is parsed once, into a prompt, a command or a shell line."""

from __future__ import annotations

import pytest

from agentcli.commands.line import CommandLine, PromptLine, ShellLine, parse_line
from agentcli.commands.registry import find
from tests.support.tables import each_row


@each_row("text", ["fix it", "", "/", "/usr is full", "/usr/bin/env", "a\n/model", "and /model", "#12 fails", "# A\nb"])
def test_prompts(text: str) -> None:
    assert parse_line(text) == PromptLine(text)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [("/model", "model", ""), ("  /model  opus now ", "model", "opus now"), ("/compact a\nb", "compact", "a\nb")],
)
def test_commands(text: str, name: str, arguments: str) -> None:
    assert parse_line(text) == CommandLine(name, arguments, find(name))


def test_an_alias_names_its_command_and_an_unknown_name_none() -> None:
    quit_line, unknown = parse_line("/quit"), parse_line("/nosuchcommand x")
    assert isinstance(quit_line, CommandLine)
    assert quit_line.command is find("exit")
    assert unknown == CommandLine("nosuchcommand", "x", None)


def test_shell_lines() -> None:
    assert parse_line("! ls -l") == ShellLine("ls -l")


def test_a_line_after_a_hash_is_added_to_an_instruction_file() -> None:
    assert parse_line("# run make check ") == CommandLine("memory", "add run make check", find("memory"))
