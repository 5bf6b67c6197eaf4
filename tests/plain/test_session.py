"""The plain mode session on a real engine with a scripted model: printing, questions, queue, interruptions."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentcli.agent.mcp.requests import SessionRequests
from agentcli.core.permission import PermissionMode
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import InputRequest
from agentcli.mcp.servers import McpServers
from agentcli.plain.session import PlainSession, context_used
from agentcli.plain.writer import BareWriter
from agentcli.tools.base import Output
from tests.plain.asked import FOREVER, ScriptedReader
from tests.support.fakes import Bench, FakeTool, bench
from tests.support.scripts import call, pause, reply, say
from tests.support.session_desk import SessionDesk
from tests.support.subagents import WORKER, agent_bench, task

pytestmark = pytest.mark.virtual


class Desk(SessionDesk):
    """A session at work, with what it prints and who answers."""

    def __init__(self, *replies: Any, answers: tuple[str, ...] = (), **rest: Any) -> None:
        self.bench: Bench = bench(*replies, **rest) if "most" not in rest else agent_bench(*replies, **rest)[0]
        self.text = ""
        self.reader = ScriptedReader(*answers)
        self.session = PlainSession(
            self.reader, BareWriter(self._printed), now=lambda: asyncio.get_running_loop().time()
        )

    def _printed(self, text: str) -> None:
        self.text += text

    def seen(self) -> object:
        return self.text

    def start(self, text: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.session.run(text))


SOMEBODY = {"interactive": True, "mode": PermissionMode.DEFAULT}


def asking_tool(**rest: Any) -> FakeTool:
    return FakeTool("Touch", safe=False, need="write", **rest)


@pytest.mark.parametrize(("used", "said"), [(15_800, "2%"), (14_000, "1%"), (400, "<1%")])
def test_the_context_share_is_rounded_as_in_the_app(used: int, said: str) -> None:
    outlook = SimpleNamespace(tokens=used, window=1_000_000)
    engine: Any = SimpleNamespace(context=SimpleNamespace(outlook=lambda: outlook))
    assert context_used(engine) == f"{said} of the context"


async def test_prompts_sent_meanwhile_join_after_the_tools_and_the_rest_follow() -> None:
    slow = FakeTool("Slow", seconds=5)
    async with Desk(reply(call("Slow")), "Both done.", "The last.", tools=[slow]) as desk:
        running = desk.start("first")
        await desk.until(lambda: slow.runs)
        desk.session.line("second")
        assert "· Queued: second" in desk.text
        desk.session.line("/cost")
        await running
        assert "> second" in desk.text
        assert list(desk.session.next) == ["/cost"]
        assert len(desk.bench.requests) == 2


async def test_an_interruption_puts_queued_and_typed_text_into_the_next_prompt() -> None:
    async with Desk(reply(say("Hello"), pause(60))) as desk:
        running = desk.start("first")
        await desk.until(lambda: "Hello" in desk.text)
        desk.session.line("second")
        desk.reader.typed = "half a thi"
        desk.session.interrupt()
        await running
        assert desk.session.draft == "second\nhalf a thi"
        assert not desk.session.next


async def test_an_empty_line_replaces_the_running_work_with_the_queued_prompt() -> None:
    async with Desk(reply(say("Hello"), pause(60)), "Instead.") as desk:
        running = desk.start("first")
        await desk.until(lambda: "Hello" in desk.text)
        desk.session.line("")
        assert not running.done()
        desk.session.line("second")
        desk.session.line("")
        await running
        assert list(desk.session.next) == ["second"]
        assert "Interrupted" not in desk.text
        await desk.session.run(desk.session.next.popleft())
        assert "Instead." in desk.text


async def test_a_question_holds_back_everything_else_until_it_has_its_answer() -> None:
    touch, slow = asking_tool(), FakeTool("Slow", seconds=1, output=Output("slow result"))
    async with Desk(
        reply(call("Slow"), call("Touch")), "Done.", tools=[touch, slow], **SOMEBODY, answers=("y",)
    ) as desk:
        await desk.session.run("go")
        assert desk.reader.questions == ["Answer: "]
        assert touch.runs
        assert "Done." in desk.text
        question, options = desk.text.index("Use Touch?"), desk.text.index("explain why not")
        assert "slow result" not in desk.text[question:options]


async def test_a_signal_closes_an_open_question() -> None:
    async with Desk(reply(call("Touch")), tools=[asking_tool()], **SOMEBODY, answers=(FOREVER,)) as desk:
        running = desk.start("go")
        await desk.until(lambda: desk.reader.questions)
        desk.session.interrupt()
        await running
        assert "Interrupted." in desk.text
        assert desk.session.engine is not None
        await desk.until(lambda: desk.session.engine is not None and not desk.session.engine.running)


async def test_esc_before_the_engine_is_ready_returns_the_prompt() -> None:
    desk = Desk("an answer")
    engine_comes = asyncio.Event()

    async def opening() -> None:
        await engine_comes.wait()

    task = asyncio.get_running_loop().create_task(opening())
    waiting = asyncio.get_running_loop().create_task(desk.session.wait_for(task, "too early"))
    await asyncio.sleep(1)
    desk.session.interrupt()
    assert await waiting is False
    assert desk.session.draft == "too early"
    assert "Interrupted." in desk.text
    engine_comes.set()
    await task
    assert await desk.session.wait_for(task, "now") is True
    async with desk:
        await desk.session.run("now")
    assert "an answer" in desk.text


async def test_work_that_does_not_stop_is_reported_and_a_waiting_prompt_can_be_withdrawn() -> None:
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
        running = desk.start("go")
        await desk.until(lambda: stubborn.runs)
        desk.session.interrupt()
        await running
        waiting = desk.start("again")
        await desk.until(lambda: "The running task did not stop" in desk.text)
        desk.session.interrupt()
        await waiting
        assert desk.session.draft == "again"
        desk.session.draft = ""
        await desk.session.run("once more")
        assert "Second." in desk.text
        assert len(desk.bench.requests) == 2


async def test_a_note_that_comes_while_the_prompt_is_open_is_printed_above_it() -> None:
    deaf = FakeTool("Deaf", seconds=1_000, ignores_abort=True)
    async with Desk(reply(call("Deaf")), tools=[deaf]) as desk:
        running = desk.start("go")
        await desk.until(lambda: deaf.runs)
        desk.session.interrupt()
        await running
        assert desk.reader.above_prompt == 0
        await desk.until(lambda: "was cancelled" in desk.text)
        assert desk.reader.above_prompt == 1


async def test_the_question_of_an_agent_names_it_and_its_words_are_not_the_answer() -> None:
    desk = Desk(
        reply("I delegate.", task()),
        "All is done.",
        reply("Let me touch it.", call("Touch"), match=WORKER),
        reply("Touched.", match=WORKER),
        answers=("y",),
        tools=[asking_tool()],
        most=10,
        **SOMEBODY,
    )
    async with desk:
        await desk.session.run("go")
        words = [
            "I delegate.",
            "· Agent general-1 started: some work",
            "(asked by general-1)",
            "· Agent general-1 completed: some work (2 turns",
            "All is done.",
        ]
        places = [desk.text.index(word) for word in words]
        assert places == sorted(places)
        assert "Let me touch it." not in desk.text
        assert "Touched." not in desk.text
        assert "* Touch" not in desk.text


async def test_a_server_asks_while_the_prompt_is_open_and_the_prompt_is_painted_again() -> None:
    duties = SessionRequests(interactive=True)
    servers = McpServers([ServerConfig("small", "stdio", command="/none")], ServerSurroundings(Path("/work")), duties)
    async with Desk(answers=("f", "Ada", "y"), mcp=servers, **SOMEBODY) as desk:
        await asyncio.sleep(0)
        form = InputRequest("small", "Who are you?", {"properties": {"name": {"type": "string"}}})
        assert (await duties.elicit(form)).content == {"name": "Ada"}
        assert "Who are you?" in desk.text
        await desk.until(lambda: desk.reader.above_prompt == 1)
