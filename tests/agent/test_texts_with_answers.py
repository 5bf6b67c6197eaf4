"""Text that the user gives with a denial or an answer reaches the model verbatim and is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import Origin
from agentcli.core.permission import Answer, PermissionMode
from tests.support.assembled import Assembled
from tests.support.fakes import only
from tests.support.scripts import call, reply

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


async def test_text_given_with_a_denial_follows_the_results_as_a_user_message(project: Path) -> None:
    calls = reply(call("Read", file_path="a.txt"), call("Bash", command="touch b.txt"), call("Read", file_path="a.txt"))
    async with Assembled(project, [calls, "Done."], no_with_words) as session:
        events = await session.run()
        content = session.last_content()
    assert [block["type"] for block in content] == ["tool_result"] * 3 + ["text"]
    (part,) = content[1]["content"]
    assert content[1]["is_error"]
    assert part["text"] == (
        "<tool_use_error>The user declined this call. Their reason follows these results as a message of the user."
        "</tool_use_error>"
    )
    assert content[3]["text"] == f"[The user declined `Bash touch b.txt` and said:]\n{WORDS}"
    assert WORDS in only(events, ev.PermissionDenied)[0].reason
    assert not (project / "b.txt").exists()


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


async def test_a_denial_without_text_does_not_announce_any(project: Path) -> None:
    calls = reply(call("Bash", command="touch b.txt"))
    async with Assembled(project, [calls, "Done."], lambda _event: Answer("deny")) as session:
        await session.run()
        content = session.last_content()
    assert [block["type"] for block in content] == ["tool_result"]
    assert session.results == ["<tool_use_error>The user declined this call.</tool_use_error>"]


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
