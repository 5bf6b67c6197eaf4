"""Plan mode and questions through the whole engine: nothing mutating runs, and only the user's approval ends it. The
real tools and the real policy; only the model is scripted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import pytest

from agentcli.agent.context.compaction_restore import plan_text
from agentcli.agent.engine import Engine
from agentcli.agent.ports import Hooks, HookVerdict
from agentcli.core import events as ev
from agentcli.core.messages import Json, Origin, ToolUseBlock
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.wording import approval_reason, question_of
from agentcli.tools.function import tool
from tests.support.assembled import Assembled
from tests.support.fakes import only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio
_BEFORE_PLAN = [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO, PermissionMode.BYPASS]
PLAN = "1. Change a.txt\n2. Run the tests"
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red"}, {"label": "Blue", "description": "Like the sea"}],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "n.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return folder


class Session(Assembled):
    """A conversation that starts in plan mode."""

    async def __aenter__(self) -> Self:
        self.options = {"permission_mode": PermissionMode.PLAN, **self.options}
        return await super().__aenter__()

    async def run(self, prompt: Any = "go", **rest: Any) -> list[ev.Event]:
        events = await super().run(prompt, **rest)
        result_of(events)
        return events


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@tool
def deploy(where: str) -> str:
    """Deploys."""
    raise AssertionError("must not run")


MUTATING: list[Json] = [
    call("Write", file_path="a.txt", content="x"),
    call("Write", file_path="new/b.txt", content="x"),
    call("Edit", file_path="a.txt", old_string="one", new_string="two"),
    call("MultiEdit", file_path="a.txt", edits=[{"old_string": "one", "new_string": "two"}]),
    call("NotebookEdit", notebook_path="n.ipynb", new_source="x", edit_mode="insert", cell_type="code"),
    call("deploy", where="there"),
    *(
        call("Bash", command=command)
        for command in (
            "touch b.txt",
            "echo x > a.txt",
            "echo x >> a.txt",
            "cat a.txt | tee b.txt",
            "ls; rm a.txt",
            "ls && mv a.txt b.txt",
            "ls $(touch b.txt)",
            "ls `touch b.txt`",
            'python3 -c \'open("b.txt", "w")\'',
            "sh -c 'touch b.txt'",
            "sed -i s/one/two/ a.txt",
            "find . -name a.txt -delete",
            "find . -exec touch b.txt ;",
            "git init",
            "cp a.txt b.txt",
            "mkdir d",
            "sort -o a.txt a.txt",
            "env touch b.txt",
            "timeout 5 touch b.txt",
            "xargs touch < a.txt",
            "true; : > a.txt",
            "curl https://example.com -o b.txt",
        )
    ),
    call("Bash", command="touch b.txt", run_in_background=True),
    call("Bash", command="sleep 60 && touch b.txt", run_in_background=True),
]


@pytest.mark.parametrize("before", [mode for mode in PermissionMode if mode is not PermissionMode.AUTO], ids=str)
async def test_nothing_that_changes_something_runs_in_plan_mode(project: Path, before: PermissionMode) -> None:
    """For every earlier mode, every rule, and a user who approves everything."""
    kept = contents(project)
    allowed = ("Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "deploy", "Bash(touch *)", "Edit(/**)", "*")
    session = Session(
        project,
        [reply(*MUTATING), "Done."],
        options={"permission_mode": before, "allowed_tools": allowed, "extra_tools": (deploy,)},
    )
    async with session:
        session.engine.permissions.set_mode(PermissionMode.PLAN)
        events = await session.run()
        assert session.engine.permissions.mode is PermissionMode.PLAN
    assert only(events, ev.ToolStarted) == []
    assert session.asked == []
    assert [event.behavior for event in only(events, ev.PermissionDecided)] == ["deny"] * len(MUTATING)
    assert all("Plan mode is active" in text for text in session.results)
    assert contents(project) == kept


async def test_a_hook_cannot_allow_what_plan_mode_refuses(project: Path) -> None:
    class Allows(Hooks):
        async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
            return HookVerdict("allow", "fine")

    kept = contents(project)
    session = Session(
        project,
        [reply(*MUTATING[:3]), reply(call("ExitPlanMode", plan=PLAN)), "Done."],
        answers=lambda _event: Answer("deny"),
    )
    async with session:
        session.engine.session.use_hooks(Allows())
        await session.run()
        assert session.engine.permissions.mode is PermissionMode.PLAN
    assert contents(project) == kept
    assert [event.name for event in session.asked] == ["ExitPlanMode"], "a hook's yes is no approval of a plan"


async def test_read_only_calls_run_without_a_question(project: Path) -> None:
    looking = [
        call("Read", file_path="a.txt"),
        call("Glob", pattern="*.txt"),
        call("Grep", pattern="one"),
        call("Bash", command="ls -la && cat a.txt | head -3"),
        call("TodoWrite", todos=[{"content": "Plan", "status": "in_progress"}]),
    ]
    session = Session(project, [reply(*looking), "Done."])
    async with session:
        events = await session.run()
    assert session.asked == []
    assert len(only(events, ev.ToolStarted)) == len(looking)
    assert not any(event.result.is_error for event in only(events, ev.ToolFinished))


# ------------------------------------------------------------------------------------------------------- leaving it


@pytest.mark.parametrize("before", _BEFORE_PLAN, ids=str)
async def test_an_approved_plan_restores_the_previous_mode(project: Path, before: PermissionMode) -> None:
    session = Session(
        project,
        [reply(call("ExitPlanMode", plan=PLAN), call("Write", file_path="b.txt", content="x")), "Done."],
        options={"permission_mode": PermissionMode.DEFAULT, "allowed_tools": ("ExitPlanMode",)},
    )
    async with session:
        session.engine.permissions.set_mode(before)
        session.engine.permissions.set_mode(PermissionMode.PLAN)
        events = await session.run()
        assert session.engine.permissions.mode is before
    first = session.asked[0]
    assert first.name == "ExitPlanMode"
    assert first.display == {"kind": "plan", "plan": PLAN, "returns_to": before.value}
    assert first.title == "Plan for approval"
    assert [event.name for event in session.asked[1:]] == (["Write"] if before is PermissionMode.DEFAULT else [])
    assert session.results[0] == f"The user has approved this plan. Plan mode is off: begin the work.\n\n{PLAN}"
    assert (project / "b.txt").read_text() == "x", "what follows in the same reply finds the new mode"
    assert [event.mode for event in only(events, ev.ModeChanged)] == [before.value]


async def test_a_plan_that_the_model_began_returns_to_the_mode_before_it(project: Path) -> None:
    replies: list[Json | str] = [reply(call("EnterPlanMode")), reply(call("ExitPlanMode", plan=PLAN)), "Done."]
    session = Session(project, replies, options={"permission_mode": PermissionMode.ACCEPT_EDITS})
    async with session:
        events = await session.run()
        assert session.engine.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert [(event.mode, event.returns_to) for event in only(events, ev.ModeChanged)] == [
        ("plan", "acceptEdits"),
        ("acceptEdits", ""),
    ]


@pytest.mark.parametrize("how", ["between prompts", "by the model"])
async def test_after_a_resume_an_approved_plan_still_returns_to_the_mode_before_it(project: Path, how: str) -> None:
    steps: list[Json | str] = ["One."] if how == "between prompts" else [reply(call("EnterPlanMode")), "One."]
    session = Session(project, steps, options={"permission_mode": PermissionMode.ACCEPT_EDITS})
    async with session:
        if how == "between prompts":
            session.engine.permissions.set_mode(PermissionMode.PLAN)
        await session.run()
        resume = {"resume": session.engine.session_id, "permission_mode": None}
    again = Session(project, [reply(call("ExitPlanMode", plan=PLAN)), "Done."], options=resume)
    async with again:
        assert again.engine.permissions.mode is PermissionMode.PLAN
        await again.run()
        assert again.engine.permissions.mode is PermissionMode.ACCEPT_EDITS


async def test_a_refused_plan_passes_on_the_feedback_and_plan_mode_stays(project: Path) -> None:
    session = Session(
        project,
        [reply(call("ExitPlanMode", plan=PLAN)), reply(call("Write", file_path="b.txt", content="x")), "Done."],
        answers=lambda _event: Answer("deny", message="Leave a.txt alone."),
    )
    async with session:
        events = await session.run()
        assert session.engine.permissions.mode is PermissionMode.PLAN
    assert "did not approve the plan; plan mode stays on. Their reason follows" in session.results[0]
    assert "[The user declined `Plan for approval` and said:]\nLeave a.txt alone." in session.engine.messages[4].text
    assert not (project / "b.txt").exists()
    assert only(events, ev.ModeChanged) == []


async def test_the_user_may_edit_the_plan_and_choose_the_mode(project: Path) -> None:
    session = Session(
        project,
        [reply(call("ExitPlanMode", plan=PLAN)), "Done."],
        answers=lambda _event: Answer(
            "allow", updated_input={"plan": "Only step 1", "extra": 1}, mode=PermissionMode.ACCEPT_EDITS
        ),
    )
    async with session:
        events = await session.run()
        assert session.engine.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert session.results[0].endswith("\n\nOnly step 1")
    assert plan_text(session.engine.messages).endswith("\nOnly step 1")
    changed = only(events, ev.ModeChanged)
    assert {event.mode for event in changed} == {"acceptEdits"}
    assert changed[0].reason == "your answer"


async def test_a_plan_cannot_be_approved_in_a_noninteractive_session(project: Path) -> None:
    session = Session(
        project,
        [reply(call("ExitPlanMode", plan=PLAN)), reply(call("Write", file_path="b.txt", content="x")), "The plan."],
        options={"interactive": False, "allowed_tools": ("ExitPlanMode", "Write")},
    )
    async with session:
        events = await session.run()
        assert session.engine.permissions.mode is PermissionMode.PLAN
    assert "There is no tool called 'ExitPlanMode'" in session.results[0]
    assert "present the plan" in session.results[1]
    assert [event.name for event in only(events, ev.PermissionDenied)] == ["Write"]
    assert not (project / "b.txt").exists()


# ------------------------------------------------------------------------------------------------------ entering it


async def test_the_model_may_ask_to_plan_first(project: Path) -> None:
    session = Session(
        project,
        [
            reply(call("EnterPlanMode"), call("Write", file_path="b.txt", content="x")),
            reply(call("EnterPlanMode")),
            "Done.",
        ],
        options={"permission_mode": PermissionMode.BYPASS},
    )
    async with session:
        events = await session.run()
        assert session.engine.permissions.mode is PermissionMode.PLAN
    assert [event.name for event in session.asked] == ["EnterPlanMode"]
    assert (question_of(session.asked[0]), approval_reason(session.asked[0])) == ("Plan first?", "")
    assert [event.mode for event in only(events, ev.ModeChanged)] == ["plan"]
    assert "Plan mode is on" in session.results[0]
    assert "present the plan with ExitPlanMode" in session.results[1]
    assert "on already" in session.results[2]
    assert not (project / "b.txt").exists()


# ------------------------------------------------------------------------------------------ notices to the model


def told(engine: Engine) -> list[str]:
    return [
        "on" if "Plan mode is on" in message.text else "off"
        for message in engine.messages
        if message.origin is Origin.ATTACHMENT and "Plan mode is" in message.text
    ]


async def test_the_model_is_notified_once_per_change_even_across_processes(project: Path) -> None:
    looks = reply(call("Read", file_path="a.txt"))
    session = Session(project, [looks, looks, "One.", "Two."])
    async with session:
        await session.run()
        assert told(session.engine) == ["on"]
        assert "Plan mode is on" in str(session.requests[0]["messages"][-1]), "with the very first request"
        await session.run("more")
        assert told(session.engine) == ["on"]
        session_id = session.engine.session_id
    again = Session(project, ["Three.", "Four.", "Five."], options={"resume": session_id})
    async with again:
        await again.run("and on")
        assert told(again.engine) == ["on"]
        again.engine.permissions.set_mode(PermissionMode.DEFAULT)
        await again.run("work")
        await again.run("work on")
        assert told(again.engine) == ["on", "off"]


# -------------------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    "mode", [m for m in PermissionMode if m not in (PermissionMode.DONT_ASK, PermissionMode.AUTO)], ids=str
)
async def test_a_question_reaches_the_user_in_every_mode_and_the_answer_the_model(
    project: Path, mode: PermissionMode
) -> None:
    session = Session(
        project,
        [reply(call("AskUserQuestion", questions=[QUESTION])), "Done."],
        answers=lambda event: Answer("allow", updated_input={**event.input, "answers": {"Which colour?": "Blue"}}),
        options={"permission_mode": mode, "allowed_tools": ("AskUserQuestion",)},
    )
    async with session:
        events = await session.run()
    (asked,) = session.asked
    assert asked.title == "Question: Which colour?"
    assert asked.display["kind"] == "questions"
    assert asked.display["questions"][0]["options"][1] == {"label": "Blue", "description": "Like the sea"}
    assert session.results == ["The user answered:\n- Which colour?\n  Blue"]
    (finished,) = only(events, ev.ToolFinished)
    assert finished.structured["answers"] == {"Which colour?": "Blue"}
    calls = [block for message in session.engine.messages for block in message.tool_uses]
    assert "answers" not in calls[0].input, "the model's own call stays as it was"


@pytest.mark.parametrize(
    ("options", "answer", "says"),
    [
        ({"interactive": False}, Answer("allow"), "There is no tool called 'AskUserQuestion'"),
        ({"permission_mode": PermissionMode.DONT_ASK}, Answer("allow"), "dontAsk"),
        ({}, Answer("deny"), "The user did not answer the questions."),
        (
            {},
            Answer("deny", message="Ask me later."),
            "not answer the questions. Their reason follows",
        ),
        ({}, Answer("allow"), "The questions were not answered:"),
    ],
)
async def test_an_unanswered_question_is_an_error_with_its_reason(
    project: Path, options: dict[str, Any], answer: Answer, says: str
) -> None:
    session = Session(
        project, [reply(call("AskUserQuestion", questions=[QUESTION])), "Done."], lambda _event: answer, options
    )
    async with session:
        events = await session.run()
    assert says in session.results[0]
    assert only(events, ev.ToolFinished)[0].result.is_error


async def test_the_model_cannot_supply_the_users_answers(project: Path) -> None:
    forged = call("AskUserQuestion", questions=[QUESTION], answers={"Which colour?": "Red"})
    session = Session(project, [reply(forged), "Done."])
    async with session:
        await session.run()
    assert session.asked == []
    assert "answers: unknown" in session.results[0]


async def test_a_hook_may_answer_for_the_user(project: Path) -> None:
    class Answers(Hooks):
        async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
            return HookVerdict("allow", updated_input={**input, "answers": {"Which colour?": "Red"}})

    session = Session(project, [reply(call("AskUserQuestion", questions=[QUESTION])), "Done."])
    async with session:
        session.engine.session.use_hooks(Answers())
        await session.run()
    assert session.asked == []
    assert session.results == ["The user answered:\n- Which colour?\n  Red"]


# -------------------------------------------------------------------------------------------------------- task list
