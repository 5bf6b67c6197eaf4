"""Events are in the session file before a consumer sees them, and a process that is killed leaves a valid session."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.context.view import check_pairing, normalise
from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json, Message
from agentcli.session.load import UNFINISHED, load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output, ToolContext
from tests.session.conversations import SESSION_ID, workplace
from tests.support.fakes import FakeTool, bench
from tests.support.scripts import call, reply, say

pytestmark = pytest.mark.virtual


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
async def test_calls_are_recorded_before_they_run_and_results_before_they_are_shown(
    tmp_path: Path, is_safe: bool
) -> None:
    store, file = new_store(tmp_path)
    tool = LookingTool(safe=is_safe)
    tool.file = file
    b = bench(reply(call("Look", what="1")), "Done.", tools=[tool], store=store)
    seen: dict[type, list[str]] = {}
    async with b.engine, aclosing(b.engine.submit("go")) as events:
        async for event in events:
            seen[type(event)] = kinds_in(file)
    begun = [] if is_safe else ["call"]
    assert tool.seen == ["user", "assistant", *begun]
    assert seen[ev.ToolFinished][-1] == "user"
    assert seen[ev.LoopEnded] == [
        *("user", "assistant", *begun, "event", "reply-end", "user", "results-end"),
        *("assistant", "event", "reply-end"),
    ]
    assert kinds_in(file)[-1] == "submission-end"


@pytest.mark.parametrize("is_safe", [True, False])
async def test_a_session_killed_at_any_event_goes_on(tmp_path: Path, is_safe: bool) -> None:
    store, file = new_store(tmp_path)
    first = reply(say("I look."), call("Look", what="1"))
    b = bench(first, "Done.", tools=[FakeTool(safe=is_safe)], store=store)
    async with b.engine, aclosing(b.engine.submit("go")) as events:
        requests = [text_of_request(list(load_session(file).messages)) async for _event in events if file.exists()]
    assert all("go" in request for request in requests)
    assert any(UNFINISHED in request for request in requests), "a call without its result"
    assert "looked" in requests[-1]
