"""Prose is wrapped at word boundaries; everything else is printed verbatim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.plain.pieces import line, prose
from agentcli.plain.writer import ColourWriter, wrapped


@pytest.mark.parametrize(
    ("text", "width", "indent", "shown"),
    [
        ("one two three four five six", 20, "  ", "one two three four\n  five six"),
        ("it fits", 20, "  ", "it fits"),
        ("  - a point that is long", 20, "", "  - a point that is\n  long"),
        ("a\n\nb", 20, "  ", "a\n\n  b"),
        ("x" * 30, 20, "", "x" * 30),
    ],
)
def test_prose_is_wrapped_between_words(text: str, width: int, indent: str, shown: str) -> None:
    assert wrapped(text, width, indent) == shown


@given(st.text(st.sampled_from("ab \n-/"), max_size=200), st.integers(20, 60))
def test_nothing_but_blanks_is_lost_or_added(text: str, width: int) -> None:
    assert "".join(wrapped(text, width, "   ").split()) == "".join(text.split())


def test_a_command_is_never_wrapped() -> None:
    printed: list[str] = []
    writer = ColourWriter(printed.append, lambda: 20, colours=False)
    writer.write([line("rm -rf some/long/path another/long/path"), prose("a sentence of more than twenty", mark="! ")])
    assert "rm -rf some/long/path another/long/path\n" in printed[0]
    assert "a sentence of more\n  than twenty\n" in printed[0]
