"""Markdown as lines: how each construct looks, what copying gives, and that growing equals laying out at once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from agentcli.tui.blocks.answer import MARK, AnswerBlock, presentable
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.markdown import render_markdown
from agentcli.tui.model import AnswerItem
from agentcli.tui.theme.palette import Palette
from tests.support.tables import each_row

PALETTE = Palette()
SAMPLE = """# Title

Some **bold**, *slanted*, ~~gone~~ and `code`.
A second line with [text](https://example.org/a) and https://example.org/b.

- one
- two
  - inner
    1. deep

  more of two
- [x] done

1. first

   ```python
   def f():
       return "x"
   ```
2. second

> quoted
>
> - item

| a | b |
|---|--:|
| x | 1 |
| y | 22 |

```js
/* two
lines */
const x = `a`
```

    indented

---

<b>html</b>

![picture](a.png) and [late][ref] and a note[^1].

[^1]: Footnote text

[ref]: https://example.org/ref

### End
"""


def look(text: str, width: int = 40) -> str:
    return "\n".join(line.strip.text.rstrip() for line in render_markdown(text, width, PALETTE))


def copied(lines: list[BlockLine]) -> str:
    return "".join([line.text + line.joint for line in lines[:-1]]) + lines[-1].text


def answer(text: str, width: int = 60, *, done: bool = True) -> list[BlockLine]:
    return list(AnswerBlock(AnswerItem(id="a", text=text, done=done)).layout(width, PALETTE))


def grown(text: str, sizes: list[int], width: int = 60) -> list[BlockLine]:
    block = AnswerBlock(AnswerItem(id="a"))
    place = number = 0
    while place < len(text):
        size = sizes[number % len(sizes)]
        block.grow(text[place : place + size])
        block.layout(width, PALETTE)
        place += size
        number += 1
    block.replace(AnswerItem(id="a", text=text, done=True))
    return list(block.layout(width, PALETTE))


def styles(lines: list[BlockLine], text: str) -> Style:
    return next(segment.style or Style.null() for line in lines for segment in line.strip if text in segment.text)


def facts(lines: list[BlockLine]) -> list[tuple[object, ...]]:
    return [(line.strip, line.text, line.indent, line.joint) for line in lines]


def check(lines: list[BlockLine], width: int) -> None:
    for line in lines:
        assert line.strip.cell_length <= width
        assert sum(cell_len(segment.text) for segment in line.strip) == line.strip.cell_length
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", line.strip.text)
        for segment in line.strip:
            link = segment.style.link if segment.style else None
            assert link is None or re.fullmatch(r"https?://[!-~]+", link)


def test_a_document_looks_like_this() -> None:
    assert look(SAMPLE, 36) == (
        "Title\n\n"
        "Some bold, slanted, gone and code.\n"
        "A second line with text\n"
        "(https://example.org/a) and\n"
        "https://example.org/b.\n\n"
        "• one\n"
        "• two\n"
        "  ◦ inner\n"
        "    1. deep\n\n"
        "  more of two\n"
        "• [x] done\n\n"
        "1. first\n\n"
        "   ▏def f():                 python\n"
        '   ▏    return "x"\n'
        "2. second\n\n"
        "▎ quoted\n"
        "▎\n"
        "▎ • item\n\n"
        "a │  b\n"
        "──┼───\n"
        "x │  1\n"
        "y │ 22\n\n"
        "▏/* two                          js\n"
        "▏lines */\n"
        "▏const x = `a`\n\n"
        "▏indented\n\n"
        "────────────────────────────────────\n\n"
        "<b>html</b>\n\n"
        "[image: picture] (a.png) and late\n"
        "(https://example.org/ref) and a\n"
        "note[^1].\n\n"
        "[^1]: Footnote text\n\n"
        "End"
    )


def test_copying_gives_the_source_without_decoration_and_hard_wraps() -> None:
    text = "Words that wrap over the end.\n\n- item one that wraps too\n  - inner\n\n> quote\n\n"
    code = "ls -l\n\techo a"
    assert copied(render_markdown(f"{text}```sh\n{code}\n```", 14, PALETTE)) == text + code


CODE = st.text(
    st.characters(exclude_characters="`", exclude_categories=["Cs", "Cc"]) | st.sampled_from(" \n\t"), max_size=60
)


@given(CODE, st.integers(4, 30))
def test_copying_a_block_of_code_gives_exactly_the_code(code: str, width: int) -> None:
    assert copied(render_markdown(f"```python\n{code}\n```", width, PALETTE)) == code


def test_an_answer_begins_with_a_quiet_mark_and_has_a_margin() -> None:
    lines = answer("one two\n\nthree", 20)
    assert [line.strip.text for line in lines] == [MARK + "one two", "", "  three"]
    assert [line.strip.text.rstrip() for line in answer("```\nx\n```", 20)] == [MARK + "▏x"]
    assert [line.strip.text for line in answer("one two", 7)] == ["one two"]


def test_each_kind_of_text_has_its_style() -> None:
    lines = render_markdown("# A\n\n## B\n\n### C\n\n**d** *e* ~~f~~ `g`", 40, PALETTE)
    assert styles(lines, "A").underline
    assert not styles(lines, "B").underline
    assert styles(lines, "B").bold
    assert styles(lines, "C").color == PALETTE.text.color
    assert styles(lines, "d").bold
    assert styles(lines, "e").italic
    assert styles(lines, "f").strike
    assert styles(lines, "g").color == PALETTE.code.color


def test_only_clean_web_addresses_become_links_of_the_terminal() -> None:
    lines = render_markdown(
        "[a](https://x.org/?q=1) [b](javascript:alert) [c](file:///etc) [d](https://ü.org/\u202e) <https://e.org>",
        200,
        PALETTE,
    )
    check(lines, 200)
    assert styles(lines, "a").link == "https://x.org/?q=1"
    assert styles(lines, "c").link is None
    assert "javascript:alert" in lines[0].strip.text
    assert lines[0].strip.text.count("e.org") == 1


def test_control_characters_in_every_place_are_inert() -> None:
    evil = "\x1b]0;x\x07"
    parts = ("# {}", "- {}", "> {}", "```{}\n{}\n```", "| {} |\n|---|\n| {} |", "[{}](http://a/{})", "<{}>", "1. {}")
    text = "\n\n".join(part.replace("{}", evil) for part in parts)
    for width in (3, 10, 80):
        check(answer(text, width), width)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 12, 20, 41, 100])
def test_every_width_is_kept(width: int) -> None:
    check(answer(SAMPLE, width), width)
    check(render_markdown(SAMPLE, width, PALETTE), width)


def test_a_table_that_is_too_wide_wraps_its_cells() -> None:
    text = "| name | what it does |\n|---|---|\n| wrap | cuts text into rows that fit |\n| pad | fills up |"
    assert look(text, 26) == (
        "name │ what it does\n"
        "─────┼────────────────────\n"
        "wrap │ cuts text into rows\n"
        "     │ that fit\n"
        "─────┼────────────────────\n"
        "pad  │ fills up"
    )


def test_a_table_in_a_narrow_place_becomes_fields() -> None:
    text = "| name | what | more |\n|---|---|---|\n| wrap | cuts text | x |\n| pad | fills | |"
    assert look(text, 14) == "name: wrap\nwhat: cuts\ntext\nmore: x\n────────\nname: pad\nwhat: fills\nmore:"


def test_columns_are_aligned_also_with_wide_characters() -> None:
    text = "| a | b | c |\n|:--|:-:|--:|\n| 世界 | x | 1 |\n| x | long | 100 |"
    assert look(text, 40) == "a    │  b   │   c\n─────┼──────┼────\n世界 │  x   │   1\nx    │ long │ 100"


def test_text_nested_too_deeply_is_shown_as_source() -> None:
    text = "> " * 60 + "deep down"
    assert "deep down" in look(text, 200)
    assert "deep" in look("- " * 60 + "deep", 200)


@pytest.mark.parametrize("sizes", [[1], [7], [3, 50, 1], [10_000]])
@pytest.mark.parametrize("width", [6, 25, 80])
def test_growing_ends_with_the_same_lines_as_laying_out_at_once(sizes: list[int], width: int) -> None:
    assert facts(grown(SAMPLE, sizes, width)) == facts(answer(SAMPLE, width))


_PIECES = (
    "# h\n§para §**b§**§*§`§```\n§```py\n§~~~\n§- x\n§  - y\n§1. z\n§\n§\n\n§> q\n§| a | b |\n§|---|---|\n§| c |§---\n"
    "§[t](u§)§[r]: http://x\n§[r]§    code\n§<div>\n§世界§\t§\\§_§~~§* "
)
PIECES = st.sampled_from(_PIECES.split("§"))


@settings(max_examples=150)
@given(
    st.lists(PIECES, max_size=25).map("".join), st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 40)
)
def test_growing_any_text_ends_with_the_same_lines(text: str, sizes: list[int], width: int) -> None:
    lines = grown(text, sizes, width)
    check(lines, width)
    assert [line.strip.text for line in lines] == [line.strip.text for line in answer(text, width)]


@given(st.text(max_size=80), st.integers(1, 30))
def test_any_text_keeps_the_width_and_is_free_of_control_characters(text: str, width: int) -> None:
    check(answer(text, width), width)
    check(answer(text, width, done=False), width)


@pytest.mark.parametrize(
    ("open_text", "shown"),
    [
        ("a **bold te", "a bold te"),
        ("a **bold*", "a bold"),
        ("a **", "a"),
        ("a `cod", "a cod"),
        ("a `", "a"),
        ("snake_case_name", "snake_case_name"),
        ("2 * 3", "2 * 3"),
        ("see [docs](https://exam", "see docs"),
        ("text:\n-", "text:"),
        ("text:\n- ", "text:"),
        ("text:\n1.", "text:"),
        ("text\n``", "text"),
        ("text\n\n```pyth", "text"),
        ("a\n\n#", "a"),
        ("- one\n- **tw", "• one\n• tw"),
    ],
)
def test_unfinished_text_looks_like_its_finished_form(open_text: str, shown: str) -> None:
    lines = answer(open_text, 60, done=False)
    assert "\n".join(line.strip.text[2:] for line in lines).rstrip() == shown


@each_row(
    "text",
    [
        "Add __init__.py and __all__ to __main__.",
        "`if` __name__ == '__main__': see (__dict__), __class__.__name__ and self.__dict__",
        "**bold __init__ word** and __private_name, _snake_case_ or _init_.py",
        "call obj._value_ or _reset_() in src/_data_/x, but __not_this_",
    ],
)
def test_names_keep_their_underscores_at_every_moment_of_a_stream(text: str) -> None:
    block = AnswerBlock(AnswerItem(id="a"))
    shown = text.replace("`", "").replace("**", "")
    for character in text:
        block.grow(character)
        for line in block.layout(100, PALETTE):
            assert shown.startswith(line.strip.text[2:].rstrip())
            assert not any(style and style.italic for _part, style, _control in line.strip)
    block.replace(AnswerItem(id="a", text=text, done=True))
    assert block.layout(100, PALETTE)[0].strip.text[2:].rstrip() == shown


def test_emphasis_with_underscores_stays_emphasis_where_it_is_meant() -> None:
    (line,) = answer("__two words__ and __Note:__ and _slanted_, _more of it_.", 80)
    assert line.strip.text[2:].rstrip() == "two words and Note: and slanted, more of it."
    assert [part for part, style, _control in line.strip if style and style.bold] == ["two words", "Note:"]


def test_a_table_comes_row_by_row_and_never_falls_back_to_text() -> None:
    text = "| a | b |\n|---|---|\n| one | two |\n| three | four |\n"
    block = AnswerBlock(AnswerItem(id="a"))
    seen = []
    for character in text:
        block.grow(character)
        shown = [line.strip.text[2:].rstrip() for line in block.layout(40, PALETTE)]
        if not seen or seen[-1] != shown:
            seen.append(shown)
    header = ["a │ b", "──┼──"]
    one = ["a   │ b", "────┼────", "one │ two"]
    three = ["a     │ b", "──────┼─────", "one   │ two", "three │ four"]
    assert seen == [[], header, one, three]


def test_an_open_fence_is_code_at_once_and_its_end_is_not_shown_as_code() -> None:
    block = AnswerBlock(AnswerItem(id="a"))
    seen = []
    for piece in ("```py", "thon\n", "x = ", "1\n", "`", "``", "\nafter"):
        block.grow(piece)
        seen.append([line.strip.text[2:].rstrip() for line in block.layout(20, PALETTE)])
    assert seen == [
        [],
        ["▏          python"],
        ["▏x =       python"],
        ["▏x = 1     python"],
        ["▏x = 1     python"],
        ["▏x = 1     python"],
        ["▏x = 1     python", "", "after"],
    ]


def test_finished_lines_are_not_laid_out_again() -> None:
    block = AnswerBlock(AnswerItem(id="a"))
    block.grow("First paragraph.\n\nSecond ")
    first = block.layout(40, PALETTE)[0]
    block.grow("paragraph goes on.\n\n```\ncode\nmo")
    code = block.layout(40, PALETTE)[4]
    block.grow("re\n")
    assert block.layout(40, PALETTE)[0] is first
    assert block.layout(40, PALETTE)[4] is code


def test_an_interruption_keeps_the_visible_text() -> None:
    block = AnswerBlock(AnswerItem(id="a"))
    block.grow("half an ans")
    block.layout(40, PALETTE)
    block.replace(AnswerItem(id="a", text="", done=True))
    assert block.source == "half an ans"
    assert block.layout(40, PALETTE)[0].text == "half an ans"


def test_links_whose_targets_come_last_are_resolved_at_the_end() -> None:
    text = "See [it][x].\n\nMore.\n\n[x]: https://example.org\n"
    assert grown(text, [4])[0].text == "See it (https://example.org)."


@pytest.mark.parametrize(
    "hostile", ["[" * 9000, "![" * 4000, "*a " * 3000, "> " * 5000, "- " * 5000, "a\n" * 4500, "<a " * 3000]
)
def test_hostile_text_is_laid_out_with_few_parses(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(
        "agentcli.tui.blocks.answer.presentable", lambda text: parsed.append(len(text)) or presentable(text)
    )
    block = AnswerBlock(AnswerItem(id="a"))
    for place in range(0, len(hostile), 90):
        block.grow(hostile[place : place + 90])
        block.layout(80, PALETTE)
    # Parsing all of it again at every step would take 44 to 55 times.
    assert sum(parsed) < 35 * len(hostile)
    check(list(block.layout(80, PALETTE)), 80)


def test_a_language_that_is_not_loaded_is_not_waited_for_until_its_code_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ready: set[str] = set()
    loaded: list[tuple[str, ...]] = []
    monkeypatch.setattr("agentcli.tui.blocks.answer.is_ready", lambda language: language in ready or not language)
    monkeypatch.setattr("agentcli.tui.blocks.answer.warm", loaded.append)
    keyword = PALETTE.code_block + PALETTE.syntax["keyword"]
    for code in ("```python\ndef f", "- x\n\n  ```python\n  def g"):
        ready.clear()
        block = AnswerBlock(AnswerItem(id="a"))
        block.grow(code)
        assert styles(list(block.layout(40, PALETTE)), "def") == PALETTE.code_block
        ready.add("python")
        block.grow("(): pass")
        assert styles(list(block.layout(40, PALETTE)), "def") == keyword
        ready.clear()
        block.replace(AnswerItem(id="a", text=code + "(): pass", done=True))
        assert styles(list(block.layout(40, PALETTE)), "def") == keyword
    assert set(loaded) == {("python",)}


def test_the_bytes_written_hold_colours_and_clean_links_only() -> None:
    console = Console(force_terminal=True, color_system="truecolor")
    evil = "\x1b]52;c;AAAA\x07\x1b[2J\x9b31m\u202e"
    links = f"[a](https://x.org/{evil}) [b](https://y.org/%1b]0;x) <https://z.org/;> https://w.org/{evil}"
    text = f"{links} `{evil}`\n\n```{evil}\n{evil}"
    for line in answer(text, 70):
        written = line.strip.render(console)
        written = re.sub(r"\x1b\[[0-9;]*m", "", written)
        written = re.sub(r"\x1b\]8;id=[-0-9]+;https?://[!-~]+\x1b\\|\x1b\]8;;\x1b\\", "", written)
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", written)
