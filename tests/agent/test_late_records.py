"""Records that wait for the next request: which ones do, for how long, and what a session is without them."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.agent.delivery import RECORD_SECONDS
from agentcli.context.normalise import check_pairing, normalise
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json, Message
from agentcli.session.load import UNFINISHED, load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output, ToolContext
from tests.session.conversations import SESSION_ID, workplace
from tests.support.fakes import FakeTool, bench, collect
from tests.support.scripts import call, pause, reply, say
from tests.support.virtual import run_virtual


class LookingTool(FakeTool):
    """Remembers what the session file has when it runs."""

    file: Path

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal):  # type: ignore[no-untyped-def]
        self.seen = kinds_in(self.file)
        yield Output("looked")


def kinds_in(file: Path) -> list[str]:
    """Types of the lines of a session file that make messages."""
    lines = map(json.loads, file.read_bytes().splitlines()) if file.exists() else ()
    return [line["type"] for line in lines if line["type"] not in ("session", "shown", "request-front")]


def new_store(folder: Path) -> tuple[SessionStore, Path]:
    store = SessionStore.create(workplace(folder), SESSION_ID)
    assert store.path is not None
    return store, store.path


def text_of_request(messages: list[Message]) -> str:
    wire = normalise(messages)
    check_pairing(wire)
    return str(wire.to_tuple())


@pytest.mark.parametrize("is_safe", [True, False])
def test_a_call_that_may_change_something_is_recorded_before_it_runs_and_its_result_at_once(
    tmp_path: Path, is_safe: bool
) -> None:
    store, file = new_store(tmp_path)
    tool = LookingTool(safe=is_safe)
    tool.file = file
    after_result: list[str] = []

    async def main() -> None:
        b = bench(reply(call("Look", what="1")), "Done.", tools=[tool], store=store)
        async with b.engine, aclosing(b.engine.submit("go")) as events:
            async for event in events:
                if isinstance(event, ev.ToolFinished):
                    after_result.extend(kinds_in(file))

    run_virtual(main)
    assert tool.seen == (["user"] if is_safe else ["user", "assistant", "call"])
    begun = [] if is_safe else ["call"]
    assert after_result == ["user", "assistant", *begun, "event", *([] if is_safe else ["reply-end", "user"])]
    assert kinds_in(file) == [
        *("user", "assistant", *begun, "event", "reply-end", "user", "results-end"),
        *("assistant", "event", "reply-end", "submission-end"),
    ]


def test_records_that_wait_are_written_when_the_next_request_has_been_sent(tmp_path: Path) -> None:
    store, file = new_store(tmp_path)
    seen: list[str] = []

    async def main() -> None:
        slow = reply(pause(3 * RECORD_SECONDS), say("Done."))
        b = bench(reply(call("Look", what="1")), slow, tools=[FakeTool()], store=store)
        async with b.engine:
            work = asyncio.get_running_loop().create_task(collect(b.engine.submit("go")))
            while len(b.transport.requests) < 2:
                await asyncio.sleep(0)
            assert kinds_in(file) == ["user", "assistant", "event"]
            await asyncio.sleep(2 * RECORD_SECONDS)
            seen.extend(kinds_in(file))
            await work

    run_virtual(main)
    assert seen == ["user", "assistant", "event", "reply-end", "user", "results-end"]


def test_the_last_reply_is_recorded_before_the_end_of_the_work_is_shown(tmp_path: Path) -> None:
    """No request follows that it could wait for, and nothing after it would report that it cannot be saved."""
    store, file = new_store(tmp_path)
    seen: list[str] = []

    async def main() -> None:
        b = bench("Done.", store=store)
        async with b.engine, aclosing(b.engine.submit("go")) as events:
            async for event in events:
                if isinstance(event, ev.LoopEnded):
                    seen.extend(kinds_in(file))

    run_virtual(main)
    assert seen == ["user", "assistant", "event", "reply-end"]


def test_a_result_that_comes_while_the_reply_streams_is_recorded_before_it_is_shown(tmp_path: Path) -> None:
    store, file = new_store(tmp_path)
    seen: list[str] = []

    async def main() -> None:
        first = reply(call("Look", what="1"), pause(1), say("And then?"))
        b = bench(first, "Done.", tools=[FakeTool()], store=store)
        async with b.engine, aclosing(b.engine.submit("go")) as events:
            async for event in events:
                if isinstance(event, ev.ToolFinished):
                    seen.extend(kinds_in(file))

    run_virtual(main)
    assert seen == ["user", "assistant", "user"]


@pytest.mark.parametrize("is_safe", [True, False])
def test_a_session_killed_before_its_last_records_are_written_goes_on(tmp_path: Path, is_safe: bool) -> None:
    """At every event of two turns, with a call whose records wait and one whose do not: the next request is valid."""
    store, file = new_store(tmp_path)
    requests: list[str] = []

    async def main() -> None:
        first = reply(say("I look."), call("Look", what="1"))
        b = bench(first, "Done.", tools=[FakeTool(safe=is_safe)], store=store)
        async with b.engine, aclosing(b.engine.submit("go")) as events:
            requests.extend(
                [text_of_request(list(load_session(file).messages)) async for _event in events if file.exists()]
            )

    run_virtual(main)
    assert all("go" in request for request in requests)
    assert any(UNFINISHED in request for request in requests), "a call without its result"
    assert "looked" in requests[-1]
