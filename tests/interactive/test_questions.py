"""Every question means the same in every front end: each choice gives its answer, and closing it too."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
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
ASKED: dict[str, PermissionRequested | CompactionProposed] = {
    "command": asked(COMMAND, "Bash", input={"command": "make"}, suggestions=["Bash(make)"]),
    "alone": asked(COMMAND, "Bash", input={"command": "make"}),
    "edit": asked({"kind": "diff", "diff": "+a"}, "Edit", self_evident=True, suggestions=["Edit(a)"]),
    "loop": asked({"kind": "loop", "text": "Three times."}),
    "confirm": asked({"kind": "confirm", "text": "Sure?", "yes": "Do it", "no": "Leave it"}),
    "undo": asked({**UNDO, "exists": True}),
    "address": asked({"kind": "mcp_url", "server": "small", "message": "Sign in", "url": "https://a.example/"}),
    "sampling": asked(SAMPLING),
    "plan": asked({"kind": "plan"}, "ExitPlanMode", input={"plan": "1. Look"}),
    "summary": PROPOSED,
}
QUESTIONS: dict[str, Question] = {name: question_for(event) for name, event in ASKED.items()} | {
    "trust": ask_for_trust(FOLDER, can_exit=True),
    "review": ask_for_trust(FOLDER, can_exit=False),
}
EVIL = "x\x1b[2J\x9b1m\x07\u202e"
PAGE = {"question": "Which?", "header": "H", "options": [{"label": "red", "description": "d"}, {"label": "blue"}]}
FIELD = {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL, "enum": [EVIL]}
FORM = {"kind": "mcp_form", "server": "s", "message": EVIL, "schema": {"type": "object", "properties": {"x": FIELD}}}
MORE = {
    "findings": asked(
        COMMAND, "Bash", suggestions=[f"Bash({EVIL})"], findings=[{"part": EVIL, "clause": EVIL, "allowed": False}]
    ),
    "fetch": asked({"kind": "fetch", "url": "https://a.example/", "host": "a.example", "prompt": "see"}, "WebFetch"),
    "tool of a server": asked({"kind": "mcp", "server": "notes", "tool": "wipe", "description": "Wipe"}, "mcp__n__w"),
    "unknown": asked({"kind": EVIL}, EVIL, input={EVIL: "a"}),
    "questions": asked({"kind": "questions"}, "AskUserQuestion", input={"questions": [PAGE]}),
}


def poison(value: Any) -> Any:
    """The same with control sequences in every text that is not a name for the program."""
    if isinstance(value, dict):
        return {key: each if key in ("kind", "url") else poison(each) for key, each in value.items()}
    if isinstance(value, list):
        return [poison(each) for each in value]
    return f"{value}{EVIL}" if isinstance(value, str) else value


def poisoned(event: PermissionRequested | CompactionProposed) -> PermissionRequested | CompactionProposed:
    if isinstance(event, CompactionProposed):
        return replace(event, summary=EVIL, kept=[EVIL], dropped=[EVIL])
    texts = {"title": EVIL, "reason": EVIL, "cause": EVIL, "agent": EVIL}
    return replace(event, display=poison(event.display), input=poison(event.input), **texts)


HOSTILE = {name: poisoned(event) for name, event in (ASKED | MORE).items()} | {"form": asked(FORM)}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_is_asked_is_obeyed_by_a_terminal(name: str) -> None:
    question = question_for(HOSTILE[name])
    paper = Paper(*(["f"] if name == "form" else []), ESC)
    asyncio.run(answer_question(question, paper))
    assert "<U+202E>" in paper.text
    for text in (paper.text.removesuffix(f"{ESC}\n"), look(calm(dialog_of(question)), size=(100, 40))):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)


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
