"""Servers that appear, are replaced or change their tools during a session."""

from __future__ import annotations

import pytest

from agentcli.agent.mcp.updates import MAX_ANNOUNCED
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.mcp.protocol import McpResult
from tests.agent.test_mcp_offer import DEFERRING, texts, with_servers
from tests.support.fakes import only
from tests.support.mcp_fakes import FakeServer, text_result, tool_offer
from tests.support.scripts import call, reply

pytestmark = pytest.mark.virtual


async def test_servers_that_appear_or_are_replaced_during_a_session_can_be_called() -> None:
    first, other, later = FakeServer("one", tool_offer("a")), FakeServer("one"), FakeServer("two", tool_offer("b"))
    first.connect()

    b = with_servers("ok", reply(call("mcp__one__a", new=1)), reply(call("mcp__two__b")), "ok", servers=(first,))
    async with b.engine:
        await b.run("one")
        assert b.engine.mcp is not None
        first.leave("waiting")
        b.engine.mcp._servers = {"one": other, "two": later}
        other.connect(tool_offer("a", new="integer"))
        later.connect()
        await b.run("two")
    assert b.requests[0]["tools"] == b.requests[-1]["tools"]
    assert (first.calls, other.calls, later.calls) == ([], [("a", {"new": 1})], [("b", {})])


async def test_a_server_whose_tools_change_with_each_call_does_not_fill_the_context() -> None:
    server = FakeServer("one", *(tool_offer(f"tool_{number}_0") for number in range(300)))
    server.connect()
    calls = [0]

    async def answer(tool: str, arguments: Json, on_progress: object) -> McpResult:
        calls[0] += 1
        server.connect(*(tool_offer(f"tool_{number}_{calls[0]}") for number in range(300)))
        return text_result("ok")

    server.answer = answer

    replies = [reply(call(f"mcp__one__tool_0_{number}")) for number in range(20)]
    b = with_servers(*replies, "ok", servers=(server,), mcp_limits=DEFERRING)
    async with b.engine:
        events = await b.run("one")
    assert calls == [20]
    assert texts(b.requests[-1]).count("- one (300 tools)") == MAX_ANNOUNCED
    assert texts(b.requests[-1]).count("Further changes are not listed") == 1
    assert b.requests[0]["tools"] == b.requests[-1]["tools"]
    assert only(events, ev.PrefixBroken) == []
