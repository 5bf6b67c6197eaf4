"""The session drives a real engine on a scripted model: what is shown, queued, steered, interrupted and answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import TextBlock, ToolResultBlock
from agentcli.tui.model import AnswerItem, EndItem, PromptItem
from agentcli.tui.session import TuiSession
from tests.support.fakes import Bench, FakeTool, bench
from tests.support.scripts import call, pause, reply, say, think
from tests.support.session_desk import SessionDesk
from tests.support.shown import Shown

pytestmark = pytest.mark.virtual


class Desk(SessionDesk):
    """A session at work, with what it shows."""

    def __init__(self, *replies: Any, **rest: Any) -> None:
        self.bench: Bench = bench(*replies, **rest)
        self.shown = Shown()
        self.session = TuiSession(self.shown, now=lambda: asyncio.get_running_loop().time())

    def seen(self) -> object:
        return self.shown.texts()


async def test_a_prompt_is_shown_at_once_and_then_everything_that_follows() -> None:
    look = FakeTool("Look", steps=2)
    async with Desk(reply(think("hm"), "I look.", call("Look", what="here")), "Done.", tools=[look]) as desk:
        desk.send("go")
        assert desk.shown.texts() == ["prompt: go"], "before the engine has said anything"
        await desk.idle()
        assert desk.shown.texts() == [
            "prompt: go",
            "thinking: hm",
            "answer: I look.",
            "tool: Look here [done]",
            "answer: Done.",
            "end: 2 turns",
        ]
        assert desk.shown.activities[-1] == ""
        assert desk.shown.facts.model == "claude-sonnet-5-5"


async def test_esc_is_confirmed_at_once_and_the_next_prompt_is_accepted() -> None:
    async with Desk(reply(say("Hello, this goes on", chunk=2), pause(60), "and on"), "Second.") as desk:
        desk.send("go")
        await desk.until(lambda: bool(desk.shown.of(AnswerItem)))
        assert desk.session.interrupt()
        assert desk.shown.of(EndItem)[-1].text.startswith("Interrupted"), "in the very call"
        desk.send("again")
        assert desk.shown.of(PromptItem)[-1].text == "again"
        await desk.idle()
        assert [item.text for item in desk.shown.of(AnswerItem)][-1] == "Second."
        assert len([item for item in desk.shown.of(EndItem) if item.text.startswith("Interrupted")]) == 1
        assert "[Request interrupted by user]" in str(desk.bench.requests[-1])
        assert not desk.session.interrupt(), "nothing runs any more"


async def test_another_engine_replaces_the_first() -> None:
    async with Desk("One.") as desk:
        desk.send("go")
        await desk.idle()
        await desk.session.replace(bench("Two.").engine)
        assert desk.shown.items == []
        desk.send("go")
        await desk.idle()
        assert desk.shown.of(AnswerItem)[-1].text == "Two."


async def test_a_prompt_that_begins_with_a_path_is_shown_once_and_joins_the_running_work() -> None:
    slow = FakeTool("Slow", safe=False, seconds=5)
    async with Desk(reply(call("Slow")), "Done.", tools=[slow]) as desk:
        desk.send("/tmp is full, why?")
        await desk.until(lambda: bool(slow.runs))
        desk.send("/usr/bin too")
        await desk.idle()
        assert [item.text for item in desk.shown.of(PromptItem)] == ["/tmp is full, why?", "/usr/bin too"]
        assert len(desk.bench.requests) == 2


async def test_a_shell_line_beside_the_work_continues_after_it_and_esc_ends_it() -> None:
    """Esc stops the model's work first; the user's own command continues until the next Esc."""
    stopped: list[str] = []

    async def shell(_command: str) -> Any:
        yield ev.ToolStarted(agent=ev.USER_AGENT, tool_use_id="s", name="!", input={}, title="! tail -f log")
        yield ev.ToolProgressed(agent=ev.USER_AGENT, tool_use_id="s", text="one line\n")
        while not stopped:
            await asyncio.sleep(0.1)
        result = ToolResultBlock("s", (TextBlock("one line"),), is_error=True)
        yield ev.ToolFinished(agent=ev.USER_AGENT, tool_use_id="s", name="!", result=result, summary="stopped")

    async with Desk(reply(say("Hello"), pause(60), "and on")) as desk:
        engine = desk.bench.engine
        engine.shell = shell  # type: ignore[method-assign]
        engine.user_shell.stop = lambda: not stopped and not stopped.append("stopped")  # type: ignore[method-assign]
        desk.send("go")
        await desk.until(lambda: "answer: Hello" in desk.shown.texts())
        desk.send("!tail -f log")
        await desk.until(lambda: "tool: ! tail -f log [running]" in desk.shown.texts())
        assert desk.session.busy, "the model works on"
        assert desk.session.interrupt()
        await desk.idle()
        assert "tool: ! tail -f log [running]" in desk.shown.texts()
        assert (desk.session.interrupt(), stopped) == (True, ["stopped"])
        await desk.until(lambda: "tool: ! tail -f log [running]" not in desk.shown.texts())
        assert not desk.session.interrupt()
