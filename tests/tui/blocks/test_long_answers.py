"""Long and hostile answers: all of them is shown, bit by bit, and no frame does too much work."""

from __future__ import annotations

import pytest

from agentcli.tui.blocks import answer
from agentcli.tui.blocks.answer import AT_ONCE, AnswerBlock, Flow, warm_up
from agentcli.tui.blocks.markdown import MarkdownDocument, render_markdown
from agentcli.tui.glyphs import glyphs
from agentcli.tui.model import AnswerItem
from agentcli.tui.theme.palette import Palette
from tests.core.test_patterns import at_most

PALETTE = Palette()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What answers parse."""
    texts: list[str] = []

    class Counting(MarkdownDocument):
        def __init__(self, text: str, *rest: object) -> None:
            texts.append(text)
            super().__init__(text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(answer, "MarkdownDocument", Counting)
    return texts


def streamed(text: str, step: int) -> list[str]:
    flow = Flow(80, PALETTE)
    for start in range(0, len(text), step):
        flow.feed(text[start : start + step])
        flow.lines(done=False)
    return [line.strip.text for line in flow.lines(done=True)]


def table(columns: int, rows: int) -> str:
    lines = ["|".join(f"c{number}" for number in range(columns)), "|".join(["---"] * columns)]
    lines += ["|".join(f"v{row}.{number}" for number in range(columns)) for row in range(rows)]
    return "".join(f"|{line}|\n" for line in lines)


def shown(text: str, width: int = 80) -> list[str]:
    return [line.strip.text.rstrip() for line in render_markdown(text, width, PALETTE)]


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


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_block_is_shown_completely_but_parsed_in_parts(
    name: str, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = answer._HUGE // 4
    monkeypatch.setattr(answer, "_HUGE", most)
    text = HUGE[name] + "\nThe *end*.\n"
    at_once = streamed(text, len(text))
    found = [row.split("value ")[1].split(" ")[0].split("<")[0] for row in at_once if "value" in row]
    assert found == [str(number) for number in VALUES]
    assert at_once[-1].strip() == "The end."
    assert streamed(text, 97) == at_once
    assert max(map(answer._weight, parsed)) < 1.2 * most


def test_every_part_of_a_huge_table_has_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_HUGE", answer._HUGE // 4)
    rows = streamed(HUGE["table"], 5_000)
    assert rows.count(rows[0].replace("◆", " ")) == 2
    assert not any("|" in row for row in rows)


def test_a_huge_list_continues_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_HUGE", answer._HUGE // 4)
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


@pytest.mark.parametrize(
    "unit", ["a b ", "~", "`", "*", "**a ", "[", "![[](", "> ", "- ", "|a", "<a ", "&amp", "\\", "[a](b "]
)
def test_an_endless_line_is_laid_out_in_pieces(unit: str, parsed: list[str]) -> None:
    with at_most(60):
        streamed((unit * 30_000)[:30_000], 4_000)
    # A line of nothing but these may become a fence, which is not torn apart and costs little.
    assert unit in "~`" or max(map(len, parsed), default=0) < 25_000


@pytest.mark.parametrize("unit", ["\U0001f469\u200d", "\u0301", "a\u0301", "\u200d", "\ufe0f", "\u200c", "\U0001f1e6"])
def test_joined_characters_become_glyphs_of_bounded_length(unit: str) -> None:
    text = "a" + unit * 20_000
    found = glyphs(text)
    assert "".join(source for source, _shown, _cells in found) == text
    assert max(len(source) for source, _shown, _cells in found) < 80


PART = """## Part {number}

Some prose with **bold** words, `code` and 日本語, as long as it takes to be wrapped at the width that is there.

- one
- two

```python
def part() -> int:
    return {number}  # of many
```

"""
LONG = "".join(PART.format(number=number) for number in range(60))


def rows_of(block: AnswerBlock) -> list[str]:
    return [line.strip.text for line in block.layout(60, PALETTE)]


@pytest.mark.parametrize("size", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, len(LONG)])
def test_the_final_layout_equals_laying_out_at_once(size: int) -> None:
    warm_up()
    text = LONG[:size]
    whole = AnswerBlock(AnswerItem(id="a", text=text, done=True))
    block = AnswerBlock(AnswerItem(id="a"))
    block.layout(60, PALETTE)
    block.grow(text)
    block.replace(AnswerItem(id="a", text=text, done=True))
    looks = 0
    lines = rows_of(block)
    while block.behind:
        looks += 1
        assert len(lines) <= len(whole.layout(60, PALETTE)) + 2
        lines = rows_of(block)
    assert lines == rows_of(whole)
    assert looks == max(0, (size - 1) // AT_ONCE)
    assert block.source == text.strip("\n")


def test_a_new_width_keeps_what_was_shown_and_a_dropped_layout_includes_all_pending_text() -> None:
    block = AnswerBlock(AnswerItem(id="a"))
    block.grow(LONG)
    shown = rows_of(block)
    assert block.behind
    assert len(block.layout(50, PALETTE)) > len(shown)
    assert block.behind
    block.forget()
    block.layout(50, PALETTE)
    assert not block.behind
