"""Sub-agents in the whole app with a scripted model: blocks, questions, interruption, background, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from agentcli.core.permission import Answer
from agentcli.tui.app import AgentApp
from agentcli.tui.model import AnswerItem, NoticeItem, ToolItem
from agentcli.tui.progress import AgentProgress
from tests.support.scripts import call, pause, reply, say
from tests.tui.test_app import Desk, idle, rows, sends, until

WORKER, EXPLORER = "You work on one task", "You explore a code base"


def task(agent: str, description: str, **input: Any) -> Any:
    return call("Task", description=description, prompt=description, subagent_type=agent, **input)


def progress(app: AgentApp) -> list[AgentProgress]:
    return app.chat.transcript.agents()


def test_parallel_agents_are_blocks_and_their_words_are_not_the_answer(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        reply(say("I delegate."), task("explore", "Find the bug"), task("general", "Fix the bug")),
        "All is done.",
        reply(say("I search."), call("Read", file_path="parser.py"), match=EXPLORER),
        reply("The bug is in head.", match=EXPLORER),
        reply("Fixed.", match=WORKER),
    )

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go")
        await idle(pilot, app)
        items = app.chat.transcript.items()
        assert [item.text for item in items if isinstance(item, AnswerItem)] == ["I delegate.", "All is done."]
        assert not any(isinstance(item, ToolItem) for item in items)
        assert [(one.id, one.status, one.report) for one in progress(app)] == [
            ("explore-1", "done", "The bug is in head."),
            ("general-1", "done", "Fixed."),
        ]
        screen = "\n".join(rows(app))
        assert "✓ explore-1 Find the bug · done" in screen
        assert "│ The bug is in head" in screen
        assert "I search." not in screen
        await pilot.press("ctrl+o")
        app.chat.transcript.frame()
        await pilot.pause()
        assert "│ ◆ I search." in "\n".join(rows(app))

    desk.play(script, (80, 40))


def test_a_question_names_its_agent_and_the_other_goes_on(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        reply(task("general", "Make a file"), task("explore", "Look around")),
        "Done.",
        reply(call("Bash", command="touch made"), match=WORKER),
        reply("Made.", match=WORKER),
        reply(say("Seen."), match=EXPLORER),
    )

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go")
        await until(pilot, lambda: "asked by general-1" in "\n".join(rows(app)))
        screen = "\n".join(rows(app))
        assert "? general-1 Make a file · waits for you" in screen
        assert "Bash touch made" in screen
        request = app.chat._dialog
        assert request is not None
        app.chat.withdraw(request[0])
        app.chat.session.answer(request[0], Answer("deny", message="no"))
        await idle(pilot, app)
        assert [one.status for one in progress(app)] == ["done", "done"]
        await until(pilot, lambda: "agent" not in rows(app)[-1])

    desk.play(script)


def test_a_background_agent_goes_on_and_can_be_stopped_from_its_page(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        reply(task("explore", "Watch the logs", run_in_background=True)),
        "Started.",
        reply(say("I watch."), pause(60), match=EXPLORER),
    )

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go")
        await idle(pilot, app)
        await until(pilot, lambda: "1 agent" in rows(app)[-1])
        assert "● explore-1 Watch the logs · running · background" in "\n".join(rows(app))
        await sends(pilot, app, "/tasks")
        await until(pilot, lambda: "Agents and background commands" in "\n".join(rows(app)))
        await pilot.press("s")
        await until(pilot, lambda: progress(app)[0].status == "stopped")
        notices = [item.text for item in app.chat.transcript.items() if isinstance(item, NoticeItem)]
        assert notices[-1].startswith("Agent explore-1 stopped: Watch the logs")

    desk.play(script)


def test_an_agent_in_the_foreground_is_stopped_without_the_submission(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path,
        reply(task("explore", "Find it"), task("general", "Fix it")),
        "The other one was fine.",
        reply(pause(60), match=EXPLORER),
        reply(pause(1), say("Fixed."), match=WORKER),
    )

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "go")
        await until(pilot, lambda: len(progress(app)) == 2)
        engine = app.chat.session.engine
        assert engine is not None
        assert await engine.background.stop("explore-1")
        assert not await engine.background.stop("unknown-1")
        await idle(pilot, app)
        assert [one.status for one in progress(app)] == ["stopped", "done"]
        answers = [item.text for item in app.chat.transcript.items() if isinstance(item, AnswerItem)]
        assert answers == ["The other one was fine."]

    desk.play(script)
