"""The session drives a real engine on a scripted model: what is shown, queued, steered, interrupted and answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Self

from agentcli.core import events as ev
from agentcli.core.messages import TextBlock, ToolResultBlock
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.drafts.draft import Draft
from agentcli.tools.base import Output
from agentcli.tui.model import AnswerItem, EndItem, PromptItem, ToolItem
from agentcli.tui.session import TuiSession
from tests.support.fakes import Bench, FakeTool, bench
from tests.support.scripts import call, fails, pause, reply, say, think
from tests.support.shown import Shown
from tests.support.virtual import run_virtual


def played(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtual(test)

    run.__name__ = test.__name__
    return run


class Desk:
    """A session at work, with what it shows."""

    def __init__(self, *replies: Any, **rest: Any) -> None:
        self.bench: Bench = bench(*replies, **rest)
        self.shown = Shown()
        self.session = TuiSession(self.shown, now=lambda: asyncio.get_running_loop().time())

    async def __aenter__(self) -> Self:
        self.session.open(self.bench.engine)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.session.close()

    def send(self, text: str, at_once: bool = False) -> None:
        self.session.send(Draft(text), at_once)

    async def idle(self) -> None:
        await self.until(lambda: not self.session.busy)

    async def until(self, holds: Callable[[], bool]) -> None:
        for _step in range(10_000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"never: {self.shown.texts()}")


@played
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


@played
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


@played
async def test_a_tool_that_ignores_the_abort_is_cancelled_and_work_continues() -> None:
    deaf = FakeTool("Deaf", safe=False, seconds=600, ignores_abort=True)
    async with Desk(reply(call("Deaf")), "Second.", tools=[deaf]) as desk:
        desk.send("go")
        await desk.until(lambda: bool(deaf.runs))
        desk.session.interrupt()
        assert [item.status for item in desk.shown.of(ToolItem)] == ["interrupted"]
        desk.send("again")
        await desk.idle()
        assert desk.shown.of(AnswerItem)[-1].text == "Second."


@played
async def test_a_prompt_sent_meanwhile_waits_and_joins_after_the_tools() -> None:
    slow = FakeTool("Slow", safe=False, seconds=5)
    async with Desk(reply(call("Slow")), "Both done.", tools=[slow]) as desk:
        desk.send("first")
        await desk.until(lambda: bool(slow.runs))
        desk.send("second")
        assert desk.shown.queued == ["second"]
        await desk.idle()
        assert desk.shown.queued == []
        assert [item.text for item in desk.shown.of(PromptItem)] == ["first", "second"]
        assert len(desk.bench.requests) == 2, "it joined the running submission"


@played
async def test_an_unclaimed_prompt_becomes_its_own_submission() -> None:
    async with Desk(reply(pause(5), "First."), "Second.", "Third.") as desk:
        desk.send("first")
        await asyncio.sleep(1)
        desk.send("second")
        desk.send("third")
        await desk.until(lambda: len(desk.shown.of(AnswerItem)) == 3)
        await desk.idle()
        assert [item.text for item in desk.shown.of(PromptItem)] == ["first", "second", "third"]
        assert desk.shown.queued == []


@played
async def test_a_queued_prompt_can_be_withdrawn_and_esc_returns_all() -> None:
    async with Desk(reply(pause(60), "First.")) as desk:
        desk.send("first")
        await asyncio.sleep(1)
        for text in ("second", "third", "/undo"):
            desk.send(text)
        taken = desk.session.take_back()
        assert taken is not None
        assert taken.text == "/undo"
        desk.session.interrupt()
        assert [draft.text for draft in desk.shown.given_back] == ["second", "third"]
        assert desk.session.take_back() is None
        await desk.idle()
        assert len(desk.bench.requests) == 1


@played
async def test_steering_stops_the_running_work_without_an_interruption_message() -> None:
    async with Desk(reply(say("Going on and on", chunk=3), pause(60)), "Steered.") as desk:
        desk.send("first")
        await desk.until(lambda: bool(desk.shown.of(AnswerItem)))
        desk.send("no, this way", at_once=True)
        await desk.idle()
        assert desk.shown.of(AnswerItem)[-1].text == "Steered."
        assert not [item for item in desk.shown.of(EndItem) if item.text.startswith("Interrupted")]
        assert "interrupted by user" not in str(desk.bench.requests[-1])


@played
async def test_an_empty_enter_steers_with_the_queued_prompts() -> None:
    async with Desk(reply(pause(60)), "Steered.") as desk:
        desk.send("first")
        await asyncio.sleep(1)
        desk.send("second")
        desk.session.steer()
        await desk.idle()
        assert [item.text for item in desk.shown.of(PromptItem)] == ["first", "second"]
        assert desk.shown.of(AnswerItem)[-1].text == "Steered."


@played
async def test_questions_come_one_at_a_time_and_closing_one_stops_the_work() -> None:
    change = FakeTool("Change", safe=False, need="write")
    rest = {"tools": [change], "mode": PermissionMode.DEFAULT, "interactive": True}
    async with Desk(reply(call("Change", what="a"), call("Change", what="b")), "Done.", **rest) as desk:
        desk.send("go")
        await desk.until(lambda: len(desk.shown.asked) == 1)
        desk.session.answer(desk.shown.asked[0].request_id, Answer("allow"))
        await desk.until(lambda: len(desk.shown.asked) == 2)
        assert change.runs == [{"what": "a"}]
        desk.session.answer(desk.shown.asked[1].request_id, None)
        assert desk.shown.of(EndItem)[-1].text.startswith("Interrupted")
        await desk.idle()
        assert change.runs == [{"what": "a"}]


@played
async def test_esc_closes_an_open_question() -> None:
    change = FakeTool("Change", safe=False, need="write")
    rest = {"tools": [change], "mode": PermissionMode.DEFAULT, "interactive": True}
    async with Desk(reply(call("Change")), **rest) as desk:
        desk.send("go")
        await desk.until(lambda: bool(desk.shown.asked))
        desk.session.interrupt()
        assert desk.shown.withdrawn == [desk.shown.asked[0].request_id]
        await desk.idle()


@played
async def test_esc_ends_the_wait_before_a_retry() -> None:
    async with Desk(fails(529, headers={"retry-after": "50"}), "Never.") as desk:
        desk.send("go")
        await desk.until(lambda: "retrying" in desk.shown.activities)
        assert any("attempt 1 of" in text for text in desk.shown.texts())
        desk.session.interrupt()
        await desk.idle()
        assert asyncio.get_running_loop().time() < 10


@played
async def test_read_only_commands_run_beside_the_work_and_others_wait() -> None:
    async with Desk(reply(pause(5), "Done."), "Summary of it all.") as desk:
        desk.send("go")
        await asyncio.sleep(1)
        desk.send("/status")
        await desk.until(lambda: any("session" in text for text in desk.shown.texts()))
        assert desk.session.busy
        desk.send("/diff")
        assert desk.shown.queued == ["/diff"]
        await desk.until(lambda: not desk.shown.queued)
        await desk.idle()


@played
async def test_a_prompt_sent_before_the_engine_is_ready_starts_with_it() -> None:
    shown = Shown()
    session = TuiSession(shown, now=lambda: asyncio.get_running_loop().time())
    session.send(Draft("early"))
    assert shown.texts() == ["prompt: early"]
    session.open(bench("Here.").engine)
    while session.busy:
        await asyncio.sleep(0.01)
    assert shown.of(AnswerItem)[-1].text == "Here."
    await session.close()


@played
async def test_another_engine_replaces_the_first() -> None:
    async with Desk("One.") as desk:
        desk.send("go")
        await desk.idle()
        await desk.session.replace(bench("Two.").engine)
        assert desk.shown.items == []
        desk.send("go")
        await desk.idle()
        assert desk.shown.of(AnswerItem)[-1].text == "Two."


@played
async def test_esc_at_the_moment_of_sending_runs_nothing() -> None:
    look = FakeTool("Look")
    async with Desk(reply(call("Look")), "Never.", tools=[look]) as desk:
        desk.send("go")
        assert desk.session.interrupt()
        await desk.idle()
        assert desk.bench.requests == []
        assert look.runs == []


@played
async def test_a_prompt_that_begins_with_a_path_is_shown_once_and_joins_the_running_work() -> None:
    slow = FakeTool("Slow", safe=False, seconds=5)
    async with Desk(reply(call("Slow")), "Done.", tools=[slow]) as desk:
        desk.send("/tmp is full, why?")
        await desk.until(lambda: bool(slow.runs))
        desk.send("/usr/bin too")
        await desk.idle()
        assert [item.text for item in desk.shown.of(PromptItem)] == ["/tmp is full, why?", "/usr/bin too"]
        assert len(desk.bench.requests) == 2


@played
async def test_a_prompt_sent_while_a_session_opens_goes_to_that_session() -> None:
    async with Desk(reply(pause(60))) as desk:
        desk.send("go")
        await asyncio.sleep(1)
        desk.send("queued")
        desk.session.hold(True)
        desk.send("for the new one")
        other = bench("Here.")
        await desk.session.replace(other.engine)
        await desk.idle()
        assert [draft.text for draft in desk.shown.given_back] == ["queued"]
        assert [item.text for item in desk.shown.of(PromptItem)] == ["for the new one"]
        assert desk.shown.of(AnswerItem)[-1].text == "Here."
        assert len(other.requests) == 1


@played
async def test_work_that_cannot_be_cancelled_is_reported_with_advice() -> None:
    class Stubborn(FakeTool):
        async def run(self, input: Any, context: Any, signal: Any) -> Any:
            self.runs.append(input)
            for _cancellation in range(2):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(600)
            await asyncio.sleep(60)
            yield Output("over")

    stubborn = Stubborn("Stubborn", safe=False)
    async with Desk(reply(call("Stubborn")), "Second.", tools=[stubborn]) as desk:
        desk.send("go")
        await desk.until(lambda: bool(stubborn.runs))
        desk.session.interrupt()
        await desk.until(lambda: any("The running task did not stop" in text for text in desk.shown.texts()))
        await desk.idle()


@played
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
