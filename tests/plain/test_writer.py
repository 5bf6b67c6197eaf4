"""What the writers make of pieces: styles, rendered Markdown, wrapped prose, and nothing that deceives."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.core.events import ToolFinished
from agentcli.core.messages import TextBlock, ToolResultBlock
from agentcli.core.permission import Answer
from agentcli.core.text.columns import wrap_sentences
from agentcli.interactive.questions.model import AnswerChoice, Question
from agentcli.plain.pieces import AnswerEnd, AnswerText, Gap, line, prose
from agentcli.plain.printer import Printer
from agentcli.plain.questions import answer_question
from agentcli.plain.writer import BareWriter, ColourWriter, to_terminal
from tests.headless.fake_engine import result
from tests.plain.asked import Paper


def test_there_is_never_more_than_one_empty_line() -> None:
    out: list[str] = []
    pieces = [Gap(), line("a"), Gap(), Gap(), line("b"), Gap(), AnswerText("c\n\n"), AnswerEnd(), Gap(), line("d")]
    BareWriter(out.append).write(pieces)
    assert "".join(out) == "a\n\nb\n\nc\n\nd\n"


def coloured(*pieces: Any, width: int = 60, colours: bool = True) -> str:
    out: list[str] = []
    ColourWriter(out.append, lambda: width, colours=colours).write(pieces)
    return "".join(out)


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize(
    ("before", "after", "rest"),
    [
        ("Look:\n\n```python\ndef f():\n    re", "turn 1\n# *done*\n```\n", ["return 1", "# *done*", "```"]),
        ("| a | b |\n|---|---|\n| 1 |", " 2 |\n\nEnd.\n", ["1  2", "End."]),
    ],
)
def test_a_notice_does_not_end_the_code_block_or_table_that_streams(before: str, after: str, rest: list[str]) -> None:
    notice = prose("Queued: next thing", "quiet", "· ")
    rows = bare(coloured(AnswerText(before), Gap(), notice, AnswerText(after), AnswerEnd())).splitlines()
    shown = [row.strip() for row in rows if row.strip()]
    assert shown[-len(rest) :] == rest
    assert "· Queued: next thing" in shown


def test_markdown_is_rendered_with_style_codes_only() -> None:
    text = "# Head\n\n**b** `c` [l](http://u)\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n> q\n\n```sh\nls\n```\n"
    shown = coloured(AnswerText(text), AnswerEnd())
    assert "\x1b" not in bare(shown)
    assert "b c l (http://u)" in bare(shown)
    assert all(row == row.rstrip() for row in bare(shown).split("\n")), "no blanks at the ends of lines"


def test_text_that_looks_like_renderer_markup_stays_text() -> None:
    assert "[bold red]x[/] :smile: [link=http://x]y[/link]" in bare(
        coloured(AnswerText("[bold red]x[/] :smile: [link=http://x]y[/link]"), AnswerEnd(), width=100)
    )


def test_a_long_paragraph_is_printed_row_by_row_while_it_is_being_written() -> None:
    out: list[str] = []
    writer = ColourWriter(out.append, lambda: 30)
    text = "some words that come in one by one and make a rather **long** paragraph with `code` in it"
    words = text.split()
    for word in words:
        writer.write([AnswerText(f"{word} ")])
    assert len(out) >= 2, "rows came before the end"
    writer.write([AnswerEnd()])
    assert "".join(out) == coloured(AnswerText(text), AnswerEnd(), width=30)


@given(
    st.lists(
        st.sampled_from(
            [
                "word",
                "**b**",
                "`c d`",
                "*i",
                "j*",
                "a_b",
                "2 * 3",
                "\n",
                "\n\n",
                "- x",
                "1. y",
                "\n```\n",
                "[l](u)",
                "#",
            ]
        ),
        max_size=60,
    ),
    st.integers(1, 9),
)
@example([*["word"] * 14, "*i", "*i", "j*"], 1)
def test_rows_printed_early_equal_the_final_rows(pieces: list[str], step: int) -> None:
    text = " ".join(pieces)
    out: list[str] = []
    writer = ColourWriter(out.append, lambda: 24)
    writer.write(AnswerText(text[place : place + step]) for place in range(0, len(text), step))
    writer.write([AnswerEnd()])
    assert "".join(out) == coloured(AnswerText(text), AnswerEnd(), width=24)


def test_html_is_shown_as_the_text_that_it_is() -> None:
    text = "<div>\nhidden\n</div>\n\nand <b>this</b> <!-- too -->"
    shown = bare(coloured(AnswerText(text), AnswerEnd()))
    for word in ("<div>", "hidden", "</div>", "and <b>this</b> <!-- too -->"):
        assert word in shown


def test_every_styled_line_resets_its_style() -> None:
    shown = coloured(line("one\ntwo", "error"))
    assert shown == "\x1b[31mone\x1b[0m\n\x1b[31mtwo\x1b[0m\n"
    assert coloured(line("x", "error"), colours=False) == "\x1b[1mx\x1b[0m\n"


@pytest.mark.parametrize(
    ("text", "width", "indent", "shown"),
    [
        ("one two three four five six", 20, "  ", "one two three four\n  five six"),
        ("it fits", 20, "  ", "it fits"),
        ("  - a point that is long", 20, "", "  - a point that is\n    long"),
        ("a\n\nb", 20, "  ", "a\n\n  b"),
        ("x" * 30, 20, "", "x" * 30),
    ],
)
def test_prose_is_wrapped_between_words(text: str, width: int, indent: str, shown: str) -> None:
    assert wrap_sentences(text, width, indent) == shown


@given(st.text(st.sampled_from("ab \n-/"), max_size=200), st.integers(20, 60))
def test_nothing_but_blanks_is_lost_or_added(text: str, width: int) -> None:
    assert "".join(wrap_sentences(text, width, "   ").split()) == "".join(text.split())


class Narrow(Paper):
    """Forty columns."""

    def __init__(self, *answers: str) -> None:
        super().__init__(*answers)
        self._writer = ColourWriter(self._add, lambda: 40, colours=False)


def test_the_answers_of_a_question_are_wrapped_below_their_label() -> None:
    paper = Narrow("p")
    choice = AnswerChoice("", "Project: always, saved in the settings of this project", "p", Answer("allow"))
    assert asyncio.run(answer_question(Question(title="Where?", choices=(choice,)), paper)) == Answer("allow")
    assert bare(paper.text).split("\n")[1:3] == [
        "  1 p  project: always, saved in the",
        "       settings of this project",
    ]


def test_the_last_line_of_a_submission_and_outcomes_are_wrapped_between_words() -> None:
    printed: list[str] = []
    writer = ColourWriter(printed.append, lambda: 40, colours=False)
    printer = Printer(aside=lambda: "12% of the context")
    ended = ToolFinished(
        tool_use_id="t",
        name="Bash",
        result=ToolResultBlock("t", (TextBlock("x"),), is_error=False),
        summary="in the background as sh_1 and so on for long",
    )
    for event in (result(total_cost_usd=0.01), ended, result(total_cost_usd=0.03, turns=2, duration_ms=12_000)):
        writer.write(printer.show(event, 0.0))
    rows = bare("".join(printed)).split("\n")
    assert [row for row in rows if len(row) > 40] == []
    assert "  for long" in rows
    assert "  · 12% of the context" in rows


def test_a_command_is_never_wrapped() -> None:
    printed: list[str] = []
    writer = ColourWriter(printed.append, lambda: 20, colours=False)
    writer.write([line("rm -rf some/long/path another/long/path"), prose("a sentence of more than twenty", mark="! ")])
    assert "rm -rf some/long/path another/long/path\n" in printed[0]
    assert "a sentence of more\n  than twenty\n" in printed[0]


def test_text_for_a_terminal_that_is_gone_is_dropped() -> None:
    other_end, terminal = os.openpty()
    os.close(other_end)
    try:
        to_terminal(terminal, "utf-8")("Interrupted")
    finally:
        os.close(terminal)


@pytest.mark.parametrize("text", ["a \u202egpj.exe", "a &#x202e;gpj.exe", "a &#8238;gpj.exe", "`a \u202egpj.exe`"])
def test_an_answer_cannot_change_the_text_direction(text: str) -> None:
    shown: list[str] = []
    ColourWriter(shown.append, lambda: 80).write([AnswerText(text), AnswerEnd()])
    BareWriter(shown.append).write([AnswerText(text), AnswerEnd()])
    assert "\u202e" not in "".join(shown)
    assert "<U+202E>" in shown[0]


def test_a_line_cannot_change_the_direction_and_any_script_is_kept() -> None:
    shown: list[str] = []
    for writer in (ColourWriter(shown.append, lambda: 80), BareWriter(shown.append)):
        writer.write([line("\u2067x\u2069 שלום مرحبا \u200f")])
    assert shown == ["<U+2067>x<U+2069> שלום مرحبا <U+200F>\n"] * 2


def test_an_emoji_split_over_two_deltas_stays_one() -> None:
    shown: list[str] = []
    writer = BareWriter(shown.append)
    for piece in ("x 👨", "\u200d👩\u200d", "👧 ❤", "\ufe0f", "\u202e"):
        writer.write([AnswerText(piece)])
    assert "".join(shown) == "x 👨\u200d👩\u200d👧 ❤\ufe0f<U+202E>"
