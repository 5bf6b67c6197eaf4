"""Answers that are huge in one way or another: what is shown of them, and that no look at them does too much."""

from __future__ import annotations

from agentcli.tui.blocks.markdown import render_markdown
from agentcli.tui.palette import Palette


def table(columns: int, rows: int) -> str:
    lines = ["|".join(f"c{number}" for number in range(columns)), "|".join(["---"] * columns)]
    lines += ["|".join(f"v{row}.{number}" for number in range(columns)) for row in range(rows)]
    return "".join(f"|{line}|\n" for line in lines)


def shown(text: str, width: int = 80) -> list[str]:
    return [line.strip.text.rstrip() for line in render_markdown(text, width, Palette())]


def test_a_table_of_thousands_of_columns_shows_the_first_and_says_how_many_more() -> None:
    rows = shown(table(2_000, 2))
    assert rows[0] == "c0: v0.0"
    assert rows[59] == "c59: v0.59"
    assert rows[-2:] == ["c59: v1.59", "… 1,940 more columns"]
    assert shown(table(61, 1))[-1] == "… 1 more column"


def test_a_table_with_as_many_columns_as_a_wide_screen_has_room_for_is_whole() -> None:
    assert not any("more column" in row for row in shown(table(60, 2)))
