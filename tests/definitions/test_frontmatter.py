"""The header of Markdown definitions: what YAML says, and what authors mean where YAML would refuse it."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from agentcli.definitions.files import parse_document, split_list
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


def test_keys_ignore_case_and_underscores() -> None:
    assert header("Allowed_Tools: Read") == {"allowed-tools": "Read"}


def test_commas_inside_brackets_do_not_separate() -> None:
    assert split_list("Bash(git log -1, x), Read ,,Edit") == ("Bash(git log -1, x)", "Read", "Edit")


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
