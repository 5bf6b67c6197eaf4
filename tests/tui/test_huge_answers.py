"""Huge answers: what is shown of them, and that no frame does too much work."""

from __future__ import annotations

import pytest

from agentcli.tui.blocks import answer as module
from agentcli.tui.blocks.answer import Flow
from agentcli.tui.blocks.markdown import MarkdownDocument, render_markdown
from agentcli.tui.theme.palette import Palette


def table(columns: int, rows: int) -> str:
    lines = ["|".join(f"c{number}" for number in range(columns)), "|".join(["---"] * columns)]
    lines += ["|".join(f"v{row}.{number}" for number in range(columns)) for row in range(rows)]
    return "".join(f"|{line}|\n" for line in lines)


def shown(text: str, width: int = 80) -> list[str]:
    return [line.strip.text.rstrip() for line in render_markdown(text, width, Palette())]


def test_a_table_of_thousands_of_columns_shows_the_first_and_counts_the_rest() -> None:
    rows = shown(table(2_000, 2))
    assert rows[0] == "c0: v0.0"
    assert rows[59] == "c59: v0.59"
    assert rows[-2:] == ["c59: v1.59", "… 1,940 more columns"]
    assert shown(table(61, 1))[-1] == "… 1 more column"


def test_a_table_that_fits_a_wide_screen_shows_all_columns() -> None:
    assert not any("more column" in row for row in shown(table(60, 2)))


VALUES = range(104, 254)
HUGE = {
    "table": "| a | b |\n|---|---|\n" + "".join(f"| value {number} | `other` |\n" for number in VALUES),
    "nested": "- top\n" + "".join("  " * (1 + number % 8) + f"- value {number}\n" for number in VALUES),
    "quote": "".join(f"> value {number} *x*\n" for number in VALUES),
    "html": "<div>\n" + "".join(f"<p>value {number}</p>\n" for number in VALUES) + "</div>\n",
    "paragraph": "".join(f"value {number} and `code`\n" for number in VALUES),
    "many": "".join(f"value {number} and `code`\n\n" for number in VALUES),
}


def streamed(text: str, step: int) -> list[str]:
    flow = Flow(80, Palette())
    for start in range(0, len(text), step):
        flow.feed(text[start : start + step])
        flow.lines(done=False)
    return [line.strip.text for line in flow.lines(done=True)]


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_block_is_shown_completely_but_parsed_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = module._HUGE // 4
    parsed: list[int] = []

    class Counted(MarkdownDocument):
        def __init__(self, text: str, references: dict[str, object] | None = None) -> None:
            parsed.append(module._weight(text))
            super().__init__(text, references)

    monkeypatch.setattr(module, "_HUGE", most)
    monkeypatch.setattr(module, "MarkdownDocument", Counted)
    text = HUGE[name] + "\nThe *end*.\n"
    at_once = streamed(text, len(text))
    found = [row.split("value ")[1].split(" ")[0].split("<")[0] for row in at_once if "value" in row]
    assert found == [str(number) for number in VALUES]
    assert at_once[-1].strip() == "The end."
    assert streamed(text, 97) == at_once
    assert max(parsed) < 1.2 * most


def test_every_part_of_a_huge_table_has_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HUGE", module._HUGE // 4)
    rows = streamed(HUGE["table"], 5_000)
    assert rows.count(rows[0].replace("◆", " ")) == 2
    assert not any("|" in row for row in rows)


def test_a_huge_list_continues_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HUGE", module._HUGE // 4)
    assert all(row.strip(" ◆")[0] in "•◦▪" for row in streamed(HUGE["nested"], 5_000))


def test_any_number_of_link_definitions_is_resolved() -> None:
    definitions = "".join(f"[name{number}]: https://example.com/{number}\n" for number in range(600))
    flow = Flow(80, Palette())
    flow.feed(definitions + "\n[name0] and [name599]\n")
    flow.lines(done=True)
    assert len(flow.references) == 600


def test_long_code_in_a_list_is_not_split() -> None:
    text = "1. Make a file:\n   ```\n" + "".join(f"   value {number}\n" for number in range(600)) + "   ```\n\nend\n"
    rows = streamed(text, 5_000)
    assert not any("```" in row for row in rows)
    assert len([row for row in rows if "value" in row]) == 600
