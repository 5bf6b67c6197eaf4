"""The session driver with a view that only records its calls: a new front end needs nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.agent.ports import Hooks
from agentcli.core import events as ev
from agentcli.core.aio import CLEANUP_SECONDS
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.drafts import Draft
from agentcli.interactive.driver import ABORT_GRACE_SECONDS, SERVER_END_SECONDS, SessionDriver
from agentcli.interactive.view import Question, Sent, View
from agentcli.tools.base import Output
from tests.support.fakes import Bench, FakeTool, bench
from tests.support.mcp_fakes import FakeServer, fake_servers
from tests.support.scripts import call, pause, reply, say
from tests.support.session_desk import SessionDesk

pytestmark = pytest.mark.virtual


class Record(View):
    """One list of what happened, in its order."""

    def __init__(self, takes_due: bool = False) -> None:
        self.log: list[str] = []
        self.asked: list[Question] = []
        self.taken: list[str] = []
        self._takes_due = takes_due

    def show_opened(self, engine: Engine) -> None:
        self.log.append("opened")

    def clear(self) -> None:
        self.log.append("clear")

    def show_sent(self, draft: Draft) -> str:
        self.log.append(f"sent {draft.text}")
        return draft.text

    def remove_sent(self, sent: Sequence[Sent]) -> None:
        self.log += [f"removed {one.id}" for one in sent]

    def show_started(self) -> None:
        self.log.append("started")

    def show(self, event: ev.Event) -> None:
        if isinstance(event, ev.TextStreamed):
            self.log.append(event.text)
        elif isinstance(event, ev.Result):
            self.log.append(f"result {event.terminal}")

    def show_concurrent(self, event: ev.Event) -> None:
        self.log.append(f"beside {type(event).__name__}")

    def note(self, text: str, level: str) -> None:
        self.log.append(f"{level}: {text}")

    def show_interrupted(self, steering: bool) -> None:
        self.log.append("steering" if steering else "interrupted")

    def show_settled(self) -> None:
        self.log.append("settled")

    def show_queued(self, texts: list[str]) -> None:
        self.log.append(f"queued {texts}")

    def take_due(self, draft: Draft) -> bool:
        self.taken += [draft.text] if self._takes_due else []
        return self._takes_due

    def give_back(self, drafts: list[Draft]) -> None:
        self.log.append(f"back {[draft.text for draft in drafts]}")

    def ask(self, event: Question, waiting: int) -> None:
        self.asked.append(event)

    def show_waiting(self, count: int) -> None:
        self.log.append(f"waiting {count}")

    def withdraw(self, request_id: str) -> None:
        self.log.append(f"withdraw {request_id}")

    def apply_settings(self) -> None:
        self.log.append("settings")

    def refresh_commands(self) -> None:
        self.log.append("commands")

    def refresh_status(self) -> None:
        self.log.append("status")


class Driven(SessionDesk):
    def __init__(self, *replies: Any, takes_due: bool = False, **rest: Any) -> None:
        self.bench: Bench = bench(*replies, **rest)
        self.record = Record(takes_due)
        self.session = self.driver = SessionDriver(self.record)

    def seen(self) -> object:
        return self.record.log


async def test_a_prompt_is_sent_started_shown_and_settled() -> None:
    async with Driven("Hello.") as driven:
        driven.send("go")
        assert driven.record.log == ["opened", "sent go", "started"]
        await driven.idle()
        assert driven.record.log[3:] == ["Hello.", "result completed", "settled"]


async def test_queued_prompts_are_sent_one_after_the_other() -> None:
    async with Driven(reply(pause(5), "One."), "Two.", "Three.") as driven:
        driven.send("first")
        await asyncio.sleep(1)
        driven.send("second")
        driven.send("third")
        assert driven.record.log[-1] == "queued ['second', 'third']"
        await driven.until(lambda: "Three." in driven.record.log)
        await driven.idle()
        assert [text for text in driven.record.log if text.startswith("sent")] == [
            "sent first",
            "sent second",
            "sent third",
        ]
        assert driven.record.log.count("settled") == 3


async def test_a_view_may_send_queued_lines_itself() -> None:
    """A front end with commands of its own sends queued lines itself, also those that steer."""
    async with Driven(reply(pause(5), "One."), reply(pause(60)), takes_due=True) as driven:
        driven.send("first")
        await asyncio.sleep(1)
        driven.send("/diff")
        await driven.idle()
        assert driven.record.taken == ["/diff"]
        driven.send("second")
        await asyncio.sleep(1)
        driven.send("third", at_once=True)
        assert driven.record.taken == ["/diff", "third"]
        await driven.idle()
        assert "steering" in driven.record.log
        assert len(driven.bench.requests) == 2


async def test_an_interruption_is_shown_at_once_and_returns_queued_prompts() -> None:
    async with Driven(reply(say("Hello"), pause(60))) as driven:
        driven.send("first")
        await driven.until(lambda: "Hello" in driven.record.log)
        driven.send("second")
        before = len(driven.record.log)
        assert driven.driver.interrupt()
        assert driven.record.log[before:] == ["interrupted", "queued []", "back ['second']"]
        assert driven.driver.stopping
        driven.send("third")
        assert driven.record.log[-1] == "sent third"
        assert driven.driver.interrupt()
        assert driven.record.log[-2:] == ["removed third", "back ['third']"]
        await driven.idle()
        assert not driven.driver.stopping
        assert not driven.driver.interrupt()
        assert len(driven.bench.requests) == 1


async def test_an_ignored_abort_becomes_a_cancellation() -> None:
    deaf = FakeTool("Deaf", safe=False, seconds=600, ignores_abort=True)
    async with Driven(reply(call("Deaf")), "Next.", tools=[deaf]) as driven:
        driven.send("go")
        await driven.until(lambda: deaf.runs)
        began = asyncio.get_running_loop().time()
        driven.driver.interrupt()
        driven.send("again")
        await driven.until(lambda: "Next." in driven.record.log)
        assert ABORT_GRACE_SECONDS <= asyncio.get_running_loop().time() - began < ABORT_GRACE_SECONDS + 2
        await driven.idle()


async def test_questions_are_asked_one_at_a_time_and_closed_with_the_submission() -> None:
    changes = [FakeTool(name, safe=False, need="write") for name in ("A", "B")]
    rest: dict[str, Any] = {"tools": changes, "mode": PermissionMode.DEFAULT, "interactive": True}
    async with Driven(reply(call("A"), call("B")), "Never.", **rest) as driven:
        driven.send("go")
        await driven.until(lambda: driven.record.asked)
        driven.driver.answer(driven.record.asked[0].request_id, Answer("allow"))
        await driven.until(lambda: len(driven.record.asked) == 2)
        assert (len(changes[0].runs), len(changes[1].runs)) == (1, 0)
        driven.driver.interrupt()
        assert f"withdraw {driven.record.asked[1].request_id}" in driven.record.log
        await driven.idle()
        assert changes[1].runs == []


async def test_a_question_that_the_user_closes_interrupts_the_submission() -> None:
    change = FakeTool("Change", safe=False, need="write")
    rest: dict[str, Any] = {"tools": [change], "mode": PermissionMode.DEFAULT, "interactive": True}
    async with Driven(reply(call("Change")), "Never.", **rest) as driven:
        driven.send("go")
        await driven.until(lambda: driven.record.asked)
        driven.driver.answer(driven.record.asked[0].request_id, None)
        assert "interrupted" in driven.record.log
        await driven.idle()
        assert change.runs == []


async def test_a_command_runs_beside_the_reply_only_where_the_table_allows_it() -> None:
    async with Driven(reply(pause(5), "Done.")) as driven:
        driven.send("go")
        await asyncio.sleep(1)
        driven.send("/cost")
        assert driven.record.log[-1] == "beside CommandEntered"
        await driven.driver.wait_for_concurrent()
        assert driven.record.log[-1] == "status"
        assert driven.driver.busy
        driven.send("/diff")
        assert driven.record.log[-1] == "queued ['/diff']"
        await driven.until(lambda: "sent /diff" in driven.record.log)
        await driven.idle()


async def test_prompts_sent_before_the_engine_is_ready_wait_or_are_withdrawn() -> None:
    driven = Driven("Hello.", "And again.")
    for text in ("early", "/cost"):
        driven.send(text)
    assert [draft.text for draft in driven.driver.withdraw_due()] == ["early"]
    assert driven.driver.interrupt()
    assert driven.record.log[-2:] == ["removed /cost", "back ['/cost']"]
    driven.send("go")
    async with driven:
        await driven.until(lambda: "Hello." in driven.record.log)
        await driven.idle()
    assert len(driven.bench.requests) == 1


async def test_prompts_sent_while_a_session_opens_go_to_that_session() -> None:
    async with Driven(reply(pause(60))) as driven:
        driven.send("go")
        await asyncio.sleep(1)
        driven.send("queued")
        driven.driver.hold(True)
        driven.send("for the new one")
        other = bench("Here.")
        await driven.driver.replace(other.engine)
        await driven.until(lambda: "Here." in driven.record.log)
        await driven.idle()
        assert "back ['queued']" in driven.record.log
        since = driven.record.log[driven.record.log.index("clear") :]
        assert since[:4] == ["clear", "sent for the new one", "opened", "started"]
        assert len(other.requests) == 1


async def test_a_bug_in_a_submission_is_noted_and_the_next_prompt_works() -> None:
    async with Driven("Hello.") as driven:
        submit = driven.bench.engine.submit

        async def broken(*_arguments: object, **_rest: object) -> Any:
            raise RuntimeError("boom")
            yield

        driven.bench.engine.submit = broken  # type: ignore[method-assign]
        driven.send("go")
        await driven.idle()
        assert any("error: agentcli itself failed: RuntimeError: boom" in text for text in driven.record.log)
        driven.bench.engine.submit = submit  # type: ignore[method-assign]
        driven.send("again")
        await driven.until(lambda: "Hello." in driven.record.log)
        await driven.idle()


async def test_an_idle_session_notifies_hooks_once_after_an_answer() -> None:
    class Waiting(Hooks):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def attention_needed(self, kind: str, text: str) -> None:
            self.seen.append(kind)

    hooks = Waiting()
    async with Driven("Hi.", hooks=hooks) as driven:
        await asyncio.sleep(100)
        assert hooks.seen == [], "nothing was asked yet"
        driven.send("hello")
        await asyncio.sleep(50)
        assert hooks.seen == []
        await asyncio.sleep(200)
    assert hooks.seen == ["idle_prompt"]


async def test_a_stubborn_server_is_ended_beside_the_next_session_and_awaited_at_the_exit() -> None:
    class Stubborn(FakeServer):
        ended = False

        async def close(self) -> None:
            await asyncio.sleep(4)
            self.ended = True

    servers = [Stubborn("one"), Stubborn("one")]
    loop = asyncio.get_running_loop()
    async with Driven("Hello.", mcp=fake_servers(servers[0])) as driven:
        began = loop.time()
        await driven.driver.close("clear")
        assert loop.time() - began == pytest.approx(SERVER_END_SECONDS)
        assert not servers[0].ended
        driven.driver.open(bench("Hello.", mcp=fake_servers(servers[1])).engine)
        assert servers[1].predecessor is servers[0]
    assert [server.ended for server in servers] == [True, True]
    assert loop.time() - began == pytest.approx(SERVER_END_SECONDS + 4)


async def test_servers_are_ended_also_when_the_session_before_cannot_be_closed() -> None:
    class Server(FakeServer):
        ended = False

        async def close(self) -> None:
            self.ended = True

    class Failing(Hooks):
        async def after_session(self, reason: str) -> None:
            raise OSError("no space")

    server = Server("one")
    async with Driven("Hello.", mcp=fake_servers(server), hooks=Failing()) as driven:
        with pytest.raises(OSError, match="no space"):
            await driven.driver.close("clear")
        assert server.ended


class Tidying(FakeTool):
    """Ignores an abort, and cleans up for `cleanup_seconds` when it is cancelled."""

    cleanup_seconds = 0.0

    async def run(self, input: Any, context: Any, signal: Any) -> AsyncGenerator[Output, None]:
        try:
            await asyncio.sleep(500)
            yield Output("looked")
        finally:
            await asyncio.sleep(self.cleanup_seconds)
            self.ended.append("cleaned up")


@pytest.mark.parametrize("ending", ["esc", "exit"])
@pytest.mark.parametrize(("seconds", "ended"), [(1.5, ["cleaned up"]), (60.0, [])])
async def test_a_stopped_tool_may_clean_up_for_some_seconds(seconds: float, ended: list[str], ending: str) -> None:
    tool, loop = Tidying(), asyncio.get_running_loop()
    tool.cleanup_seconds = seconds
    async with Driven(reply(call("Look")), "Hello.", tools=[tool]) as driven:
        driven.send("go")
        await asyncio.sleep(1)
        began = loop.time()
        if ending == "esc":
            driven.driver.interrupt()
            await driven.idle()
            assert not any("did not stop. Quit" in line for line in driven.record.log)
        else:
            await driven.driver.close()
        assert loop.time() - began <= ABORT_GRACE_SECONDS + CLEANUP_SECONDS + 0.1
        assert not driven.driver.stuck
    assert tool.ended == ended
