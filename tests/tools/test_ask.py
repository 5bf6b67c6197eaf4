"""AskUserQuestion, alone: its dialog, its answers, and the result for the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.tools.base import Output, check_input
from agentcli.tools.planning import AskUserQuestion
from tests.support.tables import each_row
from tests.tools.running import context_in, text_of

pytestmark = pytest.mark.anyio


def question(text: str = "Which one?", **rest: Any) -> Json:
    options = [{"label": "Red", "description": "Like fire"}, {"label": "Blue"}]
    return {"question": text, "header": "Colour", "options": options, **rest}


async def answered(tmp_path: Path, questions: list[Json], answers: Any) -> Output:
    """The way an answer comes in: checked by the schema for answers, then run."""
    tool, here = AskUserQuestion(), context_in(tmp_path)
    fitted, wrong = check_input(tool.answer_schema, {"questions": questions, "answers": answers})
    assert wrong == []
    outputs = [item async for item in tool.run(fitted, here, None)]  # type: ignore[arg-type]
    assert len(outputs) == 1
    assert isinstance(outputs[0], Output)
    return outputs[0]


async def test_answers_reach_the_model_with_their_questions(tmp_path: Path) -> None:
    both = [question("Which one?"), question("And then?", multiSelect=True)]
    output = await answered(tmp_path, both, {"Which one?": "Red", "And then?": ["Blue", "something else"]})
    assert text_of(output) == "The user answered:\n- Which one?\n  Red\n- And then?\n  Blue, something else"
    assert output.summary == "2 answers"
    assert output.display["kind"] == "answers"
    assert output.structured["answers"] == {"Which one?": "Red", "And then?": "Blue, something else"}


@pytest.mark.parametrize("answers", [{}, {"Which one?": "  "}, {"Which one?": 5}, {"other": "x"}])
async def test_no_answer_is_an_error_with_advice(tmp_path: Path, answers: Json) -> None:
    output = await answered(tmp_path, [question()], answers)
    assert output.is_error
    assert "decide yourself, or ask in your reply" in text_of(output)


def test_the_model_cannot_answer_its_own_questions() -> None:
    _fitted, wrong = check_input(
        AskUserQuestion.input_schema, {"questions": [question()], "answers": {"Which one?": "Red"}}
    )
    assert wrong == ["answers: unknown; known are questions"]
    assert "answers" not in str(AskUserQuestion.input_schema)


def test_duplicates_are_refused(tmp_path: Path) -> None:
    tool, here = AskUserQuestion(), context_in(tmp_path)
    assert "the same" in str(tool.check({"questions": [question(), question()]}, here))
    twice = question(options=[{"label": "a"}, {"label": "a"}])
    assert "same label" in str(tool.check({"questions": [twice]}, here))
    assert tool.check({"questions": [question()]}, here) is None


def test_a_dialog_shows_plain_text(tmp_path: Path) -> None:
    tool, here = AskUserQuestion(), context_in(tmp_path)
    given = {"questions": [question("Which\x1b[2J one?", header="H\x07", multiSelect=True)]}
    shown = tool.preview(given, here)
    assert shown is not None
    assert shown["kind"] == "questions"
    (first,) = shown["questions"]
    assert first["question"] == "Which one?"
    assert first["header"] == "H"
    assert first["multiSelect"] is True
    assert first["options"][1] == {"label": "Blue", "description": ""}
    assert tool.needs(given, here) == (Need("question", "Question: Which one?"),)
    assert not tool.is_safe(given)


@each_row(
    ("given", "title"),
    [
        ({}, "Question"),
        ({"questions": 3}, "Question"),
        ({"questions": ["x"]}, "Question"),
        ({"questions": [question()]}, "Question: Which one?"),
        ({"questions": [question(), question("b")]}, "Question: Which one? (and 1 more)"),
    ],
)
def test_any_input_has_a_title(given: Json, title: str) -> None:
    assert AskUserQuestion().title(given) == title
