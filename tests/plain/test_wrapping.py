"""Prose is wrapped at word boundaries; everything else is printed verbatim."""

from __future__ import annotations

import asyncio
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.events import ToolFinished
from agentcli.core.messages import TextBlock, ToolResultBlock
from agentcli.core.permission import Answer
from agentcli.core.text.columns import wrap_sentences
from agentcli.interactive.questions.model import AnswerChoice, Question
from agentcli.plain.pieces import line, prose
from agentcli.plain.printer import Printer
from agentcli.plain.questions import answer_question
from agentcli.plain.writer import ColourWriter, to_terminal
from tests.headless.fake_engine import result
from tests.plain.asked import Paper


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


def without_styles(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")


def test_the_answers_of_a_question_are_wrapped_below_their_label() -> None:
    paper = Narrow("p")
    choice = AnswerChoice("", "Project: always, saved in the settings of this project", "p", Answer("allow"))
    assert asyncio.run(answer_question(Question(title="Where?", choices=(choice,)), paper)) == Answer("allow")
    assert without_styles(paper.text)[1:3] == [
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
    rows = without_styles("".join(printed))
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
