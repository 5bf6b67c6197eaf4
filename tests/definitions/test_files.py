"""Markdown definitions: their header as authors mean it, and arguments that are filled in once."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

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


def header(text: str) -> dict[str, object]:
    return dict(parse_document(f"---\n{text}\n---\nbody").fields)


@each_row(
    ("text", "value"),
    [
        ("a: plain text", "plain text"),
        ("a: Use when: the user asks", "Use when: the user asks"),
        ("a: plain # a comment", "plain"),
        ("a: C#-like", "C#-like"),
        ('a: "quoted: \\"x\\" # y"', 'quoted: "x" # y'),
        ("a: 'it''s'", "it's"),
        ("a: [file] [line]", "[file] [line]"),
        ("a: [Read, Grep]", ("Read", "Grep")),
        ('a: ["Bash(git add:*)", Read]', ("Bash(git add:*)", "Read")),
        ("a:\n  - Read\n  - Bash(ls, x)", ("Read", "Bash(ls, x)")),
        ("a:\n- Read\n- Edit", ("Read", "Edit")),
        ("a: |\n  one\n    two\n\n  three", "one\n  two\n\nthree"),
        ("a: >\n  one\n  two\n\n  three", "one two\nthree"),
        ("a: >-\n  one\n  two", "one two"),
        ("a: one\n  two", "one two"),
        ("a:", ""),
    ],
)
def test_a_value_is_read_as_its_author_meant_it(text: str, value: object) -> None:
    assert header(text) == {"a": value}


def test_the_body_starts_after_the_header_and_knows_its_line() -> None:
    document = parse_document("---\na: b\n---\n\n# Title\n")
    assert (document.body, document.body_line) == ("# Title", 5)


def test_a_file_without_a_header_is_all_body() -> None:
    document = parse_document("Just text\n---\n")
    assert (document.fields, document.body, document.body_line) == ({}, "Just text\n---", 1)


def test_windows_line_endings_and_a_byte_order_mark_are_removed() -> None:
    assert parse_document("\ufeff---\r\na: b\r\n---\r\nx\r\n").fields == {"a": "b"}


@each_row(
    ("text", "line"),
    [
        ("---\na: b\nno value\n---\n", 3),
        ("---\na: b\na: c\n---\n", 3),
        ("---\nnever closed\n", 1),
        ("---\na:\n  b: c\n---\n", 2),
    ],
)
def test_a_problem_names_its_line_and_the_rest_is_used(text: str, line: int) -> None:
    document = parse_document(text)
    assert [problem.line for problem in document.problems] == [line]
    assert document.fields.get("a", "b") in ("b", "")


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_can_be_parsed(text: str) -> None:
    for document in (parse_document(text), parse_document(f"---\n{text}\n---\n{text}")):
        assert all(isinstance(value, str | tuple) for value in document.fields.values())
        assert all(problem.line >= 1 for problem in document.problems)


@each_row("value", ["a{}b", "[a{}b]", '"a"{}b', "[a]{}b"])
def test_a_long_run_of_blanks_is_read_at_once(value: str) -> None:
    began = time.process_time()
    parse_document(f"---\ndescription: {value.format(' ' * 200_000)}\n---\nText")
    assert time.process_time() - began < 2


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
