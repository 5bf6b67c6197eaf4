"""Every question means the same in every front end: each choice gives its answer, and closing it too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentcli.config.trust import TrustedContent, TrustState
from agentcli.core.events import CompactionProposed, PermissionRequested
from agentcli.core.permission import Answer
from agentcli.interactive.questions.kinds import TextQuestion, ask_for_trust, question_for
from agentcli.interactive.questions.model import AnswerChoice, Question, answer_of
from agentcli.plain.questions import answer_question
from agentcli.tui.screens.dialog_for import dialog_of
from tests.plain.asked import ESC, Paper
from tests.tui.screen_host import calm, look, replies


def asked(display: dict[str, Any], name: str = "agentcli", **fields: Any) -> PermissionRequested:
    given = {"input": {}, "reason": "Because.", "title": "May it?", **fields}
    return PermissionRequested(request_id="q", tool_use_id="t", name=name, display=display, **given)


SAMPLING = {
    "kind": "mcp_sampling",
    "server": "small",
    "system": "Be short.",
    "model": "m",
    "max_tokens": 50,
    "messages": [{"role": "user", "text": "Say hello"}],
    "most_usd": 0.01,
    "spent_usd": 0,
    "budget_usd": 0.5,
}
CLASH = {"line": 2, "now": "mine\n", "other": "two\n"}
UNDO = {"kind": "undo", "text": "Both changed it.", "now_label": "now", "other_label": "before", "clashes": [CLASH]}
COMMAND = {"kind": "command", "command": "make", "folder": "/w", "description": "build it"}
PROPOSED = CompactionProposed(
    request_id="q", summary="All.", tokens_before=90, tokens_after=9, cost_usd=0.1, kept=[], dropped=["x"]
)
FOLDER = TrustState(Path("/w"), False, (TrustedContent(".mcp.json", "1", "{}"),), (".mcp.json",))
QUESTIONS: dict[str, Question] = {
    "command": question_for(asked(COMMAND, "Bash", input={"command": "make"}, suggestions=["Bash(make)"])),
    "alone": question_for(asked(COMMAND, "Bash", input={"command": "make"})),
    "edit": question_for(asked({"kind": "diff", "diff": "+a"}, "Edit", self_evident=True, suggestions=["Edit(a)"])),
    "loop": question_for(asked({"kind": "loop", "text": "Three times."})),
    "confirm": question_for(asked({"kind": "confirm", "text": "Sure?", "yes": "Do it", "no": "Leave it"})),
    "undo": question_for(asked({**UNDO, "exists": True})),
    "address": question_for(asked({"kind": "mcp_url", "server": "small", "url": "https://a.example/"})),
    "sampling": question_for(asked(SAMPLING)),
    "plan": question_for(asked({"kind": "plan"}, "ExitPlanMode", input={"plan": "1. Look"})),
    "summary": question_for(PROPOSED),
    "trust": ask_for_trust(FOLDER, can_exit=True),
    "review": ask_for_trust(FOLDER, can_exit=False),
}
CHOICES = [
    pytest.param(question, choice, id=f"{name}-{choice.name}")
    for name, question in QUESTIONS.items()
    for choice in question.choices
    if choice.answer is not None and choice.name != "always"
]


def in_plain_mode(question: Question, *typed: str) -> Answer | None:
    return asyncio.run(answer_question(question, Paper(*typed)))


def in_the_app(question: Question, keys: str) -> Answer | str | None:
    (given,) = replies(lambda: calm(dialog_of(question)), keys)
    assert given is None or isinstance(given, Answer | str)
    return given


@pytest.mark.parametrize(("question", "choice"), CHOICES)
def test_a_choice_gives_its_answer_in_every_front_end(question: Question, choice: AnswerChoice) -> None:
    words = ["use ninja"] if choice.words else []
    answer = answer_of(choice, *words)
    assert in_plain_mode(question, choice.letter or choice.key, *words) == answer
    assert in_the_app(question, f"end | {choice.key}{' u s e space n i n j a enter' if words else ''}") == answer


@pytest.mark.parametrize("name", QUESTIONS)
def test_closing_a_question_means_the_same_in_every_front_end(name: str) -> None:
    question = QUESTIONS[name]
    assert in_plain_mode(question, ESC) == in_the_app(question, "escape") == question.closed


@pytest.mark.parametrize("name", QUESTIONS)
def test_titles_and_choices_are_shown_and_no_letter_stands_for_two(name: str) -> None:
    question = QUESTIONS[name]
    paper = Paper(ESC)
    asyncio.run(answer_question(question, paper))
    seen = look(calm(dialog_of(question)), size=(100, 40))
    assert question.title in paper.text
    assert question.title in seen
    for choice in question.choices:
        assert choice.typed_label in paper.text
        assert choice.label.split(" ")[0] in seen
    for letters in ([one.key for one in question.choices], [one.letter or one.key for one in question.choices]):
        assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("name", ["plan", "summary"])
def test_an_edited_text_is_the_answer_and_an_empty_one_cannot_be_accepted(name: str) -> None:
    question = QUESTIONS[name]
    assert isinstance(question, TextQuestion)
    accept = question.choices[0]
    assert question.answer(accept, "Less.").updated_input == {question.subject: "Less."}
    assert question.answer(accept, question.text).updated_input is None
    assert question.choices_for(" ")[0].refused == f"the {name} is empty"
    assert "original" in [choice.name for choice in question.choices_for("Less.")]
