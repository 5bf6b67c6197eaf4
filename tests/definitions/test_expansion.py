"""Arguments are filled into a text once, and never expanded themselves."""

from __future__ import annotations

from pathlib import Path

from agentcli.definitions.files import (
    DefinitionOrigin,
    ShellPart,
    expand,
    fill_arguments,
    parse_command,
    parse_document,
    split_arguments,
)
from tests.support.tables import each_row


@each_row(
    ("body", "arguments", "filled"),
    [
        ("Fix $ARGUMENTS now", "a b", "Fix a b now"),
        ("From $1 to $2.", '"a b" c', "From a b to c."),
        ("Only $2", "one", "Only "),
        ("Costs $100 and $0", "x", "Costs $100 and $0\n\nx"),
        ("Plain", "", "Plain"),
        ("Plain\n", "more words", "Plain\n\nmore words"),
        (r"A literal \$1 and $1", "x", "A literal $1 and x"),
        ("$ARGUMENTS_LIST", "x", "$ARGUMENTS_LIST\n\nx"),
        ("$1|$2", "$2 $ARGUMENTS", "$2|$ARGUMENTS"),
    ],
)
def test_arguments_are_filled_in(body: str, arguments: str, filled: str) -> None:
    assert fill_arguments(body, arguments) == filled


def test_an_unclosed_quote_is_an_ordinary_character() -> None:
    assert split_arguments("it's here") == ["it's", "here"]


def test_commands_are_separate_parts_with_line_and_arguments() -> None:
    body = "State:\n!`git diff $1`\nGo."
    assert expand(body, "HEAD") == ("State:\n", ShellPart("git diff HEAD", 2), "\nGo.")


@each_row("body", ["not!`a`", "``!`a```", "\\!`a`", "! `a`", "!`a\nb`"])
def test_other_exclamation_marks_are_no_commands(body: str) -> None:
    assert expand(body, "") == (body,)


def test_a_command_in_an_argument_stays_text() -> None:
    assert expand("Say $1", "'!`rm x`'") == ("Say !`rm x`",)
    assert expand("Say", "!`rm x`") == ("Say\n\n!`rm x`",)


@each_row(
    ("written", "rules"),
    [
        ("Bash(git add:*), Read", ("Bash(git add:*)", "Read")),
        ("Bash(git add:*) Bash(jq:*) Read", ("Bash(git add:*)", "Bash(jq:*)", "Read")),
        ("[Read, Bash(git *)]", ("Read", "Bash(git *)")),
        ("Bash (git *)", ("Bash (git *)",)),
        ("Bash(git", ("Bash(git",)),
    ],
)
def test_rules_of_a_file_are_split_but_never_widened(written: str, rules: tuple[str, ...]) -> None:
    origin = DefinitionOrigin(Path("x.md"), "user", "x.md")
    document = parse_document(f"---\nallowed-tools: {written}\n---\nText")
    assert parse_command("x", document, origin).allowed_tools == rules


def test_a_line_is_counted_from_the_beginning_of_the_body() -> None:
    parts = expand("!`a` !`b`\n\n!`c\\` $1`\n!`d`", "x")
    assert [(part.command, part.line) for part in parts if isinstance(part, ShellPart)][::3] == [("a", 1), ("d", 4)]
