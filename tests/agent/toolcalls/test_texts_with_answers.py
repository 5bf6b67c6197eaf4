"""Text that the user gives with a denial or an answer reaches the model verbatim and is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import Json, Origin
from agentcli.core.permission import Answer, PermissionMode
from agentcli.shell.commands.command_parts import runs_beside_others
from agentcli.tools.base import Output
from agentcli.tools.shell.bash import Bash
from tests.support.assembled import Assembled
from tests.support.fakes import FakeTool, bench, only
from tests.support.scripts import call, reply
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.anyio
WORDS = "No: use the fixture in conftest.py, and never touch a.txt again."
QUESTION = {
    "question": "Which database?",
    "header": "Database",
    "options": [{"label": "Postgres"}, {"label": "SQLite"}],
}
LONG = "Part of a long story. " * 900


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def no_with_words(_event: ev.PermissionRequested) -> Answer:
    return Answer("deny", message=WORDS)


@pytest.mark.parametrize("command", ["touch b.txt", "ls missing"])
async def test_text_given_with_an_approval_follows_the_results_as_a_user_message(project: Path, command: str) -> None:
    """Whether the command then succeeds or fails."""
    calls = reply(call("Bash", command=command), call("Read", file_path="a.txt"))
    options = {"settings": '{"sandbox": {"mode": "off"}, "permissions": {"ask": ["Bash"]}}'}
    answers = lambda _event: Answer("allow", message=f" {WORDS}\n")  # noqa: E731
    async with Assembled(project, [calls, "Done."], answers, options) as session:
        await session.run()
        content = session.last_content()
        name = session.engine.session_id
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text"]
    assert WORDS not in str(content[0])
    assert content[2]["text"] == f"[The user approved `Bash {command}` and said:]\n{WORDS}"
    assert bool(content[0].get("is_error")) == (command == "ls missing")
    async with Assembled(project, [], options={"resume": name}) as again:
        assert [message.typed for message in again.log if message.origin is Origin.QUEUED] == [WORDS]


async def test_a_denial_that_interrupts_keeps_its_text_before_the_interruption(project: Path) -> None:
    calls = reply(call("Bash", command="touch b.txt"))
    answer = Answer("deny", message=WORDS, interrupt=True)
    async with Assembled(project, [calls, "Done."], lambda _event: answer) as session:
        await session.run()
        assert [message.origin for message in session.log[-3:]] == [
            Origin.TOOL_RESULTS,
            Origin.QUEUED,
            Origin.INTERRUPTION,
        ]
        await session.run("go on")
    assert WORDS in session.last_content()[1]["text"]


@pytest.mark.parametrize(
    ("mode", "first", "about"),
    [
        (PermissionMode.DEFAULT, call("Bash", command="touch b.txt"), "Bash touch b.txt"),
        (PermissionMode.PLAN, call("ExitPlanMode", plan="Change a.txt"), "Plan for approval"),
        (PermissionMode.DEFAULT, call("AskUserQuestion", questions=[QUESTION]), "Question: Which database?"),
    ],
)
async def test_text_given_with_a_denial_survives_compactions_and_a_resume_verbatim(
    project: Path, mode: PermissionMode, first: dict[str, object], about: str
) -> None:
    replies = [reply(first), LONG, LONG, "Summary one.", LONG, LONG, "Summary two.", "Fine."]
    async with Assembled(project, [*replies], no_with_words, {"permission_mode": mode}) as session:
        for prompt in ("begin", "go on"):
            await session.run(prompt)
        await session.follow(session.engine.compact())
        for prompt in ("more", "and more"):
            await session.run(prompt)
        await session.follow(session.engine.compact())
        assert sum(message.origin is Origin.BOUNDARY for message in session.log) == 2
        session_id = session.engine.session_id
    async with Assembled(project, ["Fine."], options={"resume": session_id}) as again:
        await again.run("and now?")
        sent = str(again.requests[-1]["messages"])
    assert sent.count(WORDS) == 1
    assert f"[The user declined `{about}` and said:]\\n{WORDS}" in sent


async def test_answers_to_questions_survive_a_compaction_verbatim(project: Path) -> None:
    answer = "Postgres, but version 14 because the host has no other"

    def answered(event: ev.PermissionRequested) -> Answer:
        return Answer("allow", updated_input={**event.input, "answers": {"Which database?": answer}})

    replies = [reply(call("AskUserQuestion", questions=[QUESTION])), LONG, LONG, "A summary.", "Fine."]
    async with Assembled(project, [*replies], answered) as session:
        await session.run("begin")
        await session.run("go on")
        await session.follow(session.engine.compact())
        assert any(message.origin is Origin.BOUNDARY for message in session.log)
        await session.run("and now?")
        sent = str(session.requests[-1]["messages"])
    assert sent.count(answer) == 1
    assert f"- Which database?\\n  {answer}" in sent


async def run(command: str, answer: Answer, interactive: bool = True) -> list[ev.Event]:
    b = bench(
        reply(call("Bash", command=command)),
        "Done.",
        tools=[Bash(runs_beside_others)],
        mode=PermissionMode.DEFAULT,
        interactive=interactive,
    )
    events: list[ev.Event] = []
    async with b.engine:
        async for event in b.engine.submit("go"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                b.engine.answer(event.request_id, answer)
    return events


async def test_a_question_has_a_reason_for_each_part_and_the_rules_to_save() -> None:
    events = await run("echo a && mkdir b && npm test", Answer("deny", "no"))
    (asked,) = only(events, ev.PermissionRequested)
    assert asked.reason == "Needs approval: mkdir may change files or run code (in `mkdir b`)"
    assert asked.details == [
        "echo a: allowed because it is read-only",
        "mkdir b: needs approval because mkdir may change files or run code",
        "npm test: needs approval because npm test may change files or run code",
    ]
    assert asked.suggestions == ["Bash(mkdir b)", "Bash(npm test *)"]
    wider, exact = asked.rule_choices
    covers = "exactly mkdir b; npm test with any arguments"
    assert (wider["rules"], wider["covers"]) == (asked.suggestions, covers)
    assert (exact["rules"], exact["covers"]) == (["Bash(mkdir b)", "Bash(npm test)"], "exactly this command")


async def test_every_call_has_a_decision_with_its_source() -> None:
    events = await run("echo a | wc -c", Answer("deny"))
    (decided,) = only(events, ev.PermissionDecided)
    assert (decided.behavior, decided.reason) == ("allow", "allowed because it is read-only")
    assert len(decided.details) == 2


async def test_noninteractive_denials_name_all_needed_rules() -> None:
    events = await run("mkdir b && npm test", Answer("deny"), False)
    (denied,) = only(events, ev.PermissionDenied)
    assert denied.reason == (
        "Denied `Bash mkdir b && npm test`: it needs approval because mkdir may change files or run code "
        "(in `mkdir b`), and this session is non-interactive; "
        "the parts without `mkdir b` can run as a call of their own, "
        "and the user can allow such calls with --allowedTools 'Bash(mkdir *),Bash(npm test *)'."
    )
    assert denied.rules == ["Bash(mkdir *)", "Bash(npm test *)"]


async def test_a_question_shows_the_whole_command_with_invisible_characters() -> None:
    command = "echo 'a\u202eb' && touch " + "x" * 3_000 + "\u200b"
    (asked,) = only(await run(command, Answer("deny")), ev.PermissionRequested)
    assert asked.display["kind"] == "command"
    assert asked.display["command"] == command.replace("\u202e", "<U+202E>").replace("\u200b", "<U+200B>")
    assert all("\u202e" not in text for text in (asked.reason, *asked.details))


def finished(answer: Answer) -> ev.ToolFinished:
    """The end of a call of two seconds that wants network once and gets `answer` after a minute."""
    outputs = [Output("page", summary="exit code 0")]
    outputs.insert(0, Output("no host", summary="exit code 0", wanted_hosts=("a.example",)))

    def output(_input: Json) -> Output:
        return outputs.pop(0)

    events: list[ev.Event] = []

    async def main() -> None:
        b = bench(
            reply(call("Look")), "Done.", tools=[FakeTool(safe=False, seconds=2, output=output)], interactive=True
        )
        async with b.engine:
            async for event in b.engine.submit("go"):
                events.append(event)
                if isinstance(event, ev.PermissionRequested):
                    await asyncio.sleep(60)
                    b.engine.answer(event.request_id, answer)

    run_virtual(main)
    (end,) = only(events, ev.ToolFinished)
    return end  # type: ignore[no-any-return]


def test_the_time_of_a_call_is_without_the_wait_for_the_answer() -> None:
    assert finished(Answer("allow")).duration_ms == 4_000
    assert finished(Answer("deny")).duration_ms == 2_000


def test_a_declined_network_is_a_denial_by_the_user_also_after_exit_code_0() -> None:
    end = finished(Answer("deny"))
    assert (end.outcome, end.denied_by, end.summary) == ("denied", "you", "exit code 0, network denied by you")
    assert not end.result.is_error
    assert finished(Answer("allow")).outcome == "done"
