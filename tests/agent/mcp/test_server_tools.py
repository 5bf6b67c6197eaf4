"""Tools of MCP servers in a conversation: direct or deferred, announced, found, loaded; the prefix stays as it is."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.mcp.server_tools import ServerToolLimits, ServerTools, ServerToolSettings
from agentcli.agent.mcp.tools import ReadMcpResource
from agentcli.agent.mcp.updates import MAX_ANNOUNCED
from agentcli.agent.profile import LoadedTools, Profile
from agentcli.commands.line import run_command
from agentcli.context.estimate import schema_tokens, text_tokens
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.mcp.protocol import McpContent, McpResult
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules
from agentcli.providers.body import to_bytes
from agentcli.tools.registry import Registry
from tests.support.fakes import Bench, FakeTool, bench, collect, only, result_of
from tests.support.mcp_fakes import FakeServer, fake_servers, resources, text_result, tool_offer
from tests.support.scripts import call, fails, reply
from tests.support.virtual import run_virtual
from tests.tools.running import context_in, run, text_of

pytestmark = pytest.mark.virtual

DEFERRING = ServerToolLimits(ServerToolSettings(direct_tokens=0))


def many(count: int) -> tuple[Any, ...]:
    return tuple(
        tool_offer(f"get_thing_{number}", f"Gets thing number {number}", value="string") for number in range(count)
    )


def connected(name: str, *offers: Any, **rest: Any) -> FakeServer:
    server = FakeServer(name, *offers, **rest)
    server.connect()
    return server


def tool_names(body: Json) -> list[str]:
    return [tool["name"] for tool in body.get("tools", [])]


def texts(body: Json) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def last_result(b: Bench) -> Json:
    block: Json = b.requests[-1]["messages"][-1]["content"][0]
    assert block["type"] == "tool_result"
    return block


def with_servers(*replies: Json | str, servers: tuple[FakeServer, ...], **rest: Any) -> Bench:
    return bench(*replies, tools=[FakeTool()], mcp=fake_servers(*servers), **rest)


async def test_past_the_threshold_tools_are_deferred_but_not_those_of_servers_that_are_always_loaded() -> None:
    big, always = FakeServer("big", *many(200)), FakeServer("always", tool_offer("echo"), always_load=True)
    big.connect()
    always.connect()
    b = with_servers("done", servers=(big, always))
    await b.once()
    assert tool_names(b.requests[0]) == ["Look", "ToolSearch", "mcp__always__echo"]
    assert "- big (200 tools): get_thing_0, get_thing_1, get_thing_10" in texts(b.requests[0])


@pytest.mark.parametrize("counts", [(200,), (100, 60, 40), (20,) * 10])
async def test_two_hundred_deferred_tools_cost_less_than_two_thousand_tokens(counts: tuple[int, ...]) -> None:
    servers = tuple(FakeServer(f"server-{number}", *many(count)) for number, count in enumerate(counts))
    for server in servers:
        server.connect()
    b = with_servers("done", servers=servers)
    await b.once()
    (search,) = [tool for tool in b.requests[0]["tools"] if tool["name"] == "ToolSearch"]
    (announced,) = [block["text"] for block in b.requests[0]["messages"][0]["content"] if "Deferred" in block["text"]]
    assert schema_tokens(search) + text_tokens(announced) < 2_000


async def test_a_prompt_does_not_wait_and_tools_that_come_later_are_announced_found_and_called() -> None:
    server = FakeServer("late", tool_offer("echo", "Say a text again", text="string"))
    b = with_servers(
        "first",
        reply(call("ToolSearch", query="say text")),
        reply(call("mcp__late__echo", text="hi")),
        "done",
        servers=(server,),
    )
    async with b.engine:
        await b.run("one")
        server.connect()
        events = await b.run("two")
    first, second, third, fourth = b.requests
    assert tool_names(first) == tool_names(second) == ["Look", "ToolSearch"]
    assert "mcp" not in texts(first)
    assert "- late (1 tool): echo" in texts(second)
    assert last_result(b)["content"][0]["text"] == "echo was called"
    assert server.calls == [("echo", {"text": "hi"})]
    assert third["tools"][-1] == {
        "name": "mcp__late__echo",
        "description": "Say a text again",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "defer_loading": True,
    }
    found = third["messages"][-1]["content"][0]["content"]
    assert found == [{"type": "tool_reference", "tool_name": "mcp__late__echo"}]
    assert third["tools"] == fourth["tools"]
    assert only(events, ev.PrefixBroken) == []
    assert result_of(events).text == "done"


async def test_each_thing_is_announced_once_per_change() -> None:
    server = FakeServer("one", tool_offer("a"), instructions="Be\x1b[31m kind.")
    b = with_servers(*["ok"] * 6, servers=(server,), mcp_limits=DEFERRING)
    async with b.engine:
        server.connect()
        await b.run("1")
        await b.run("2")
        server.connect(tool_offer("a"), tool_offer("b"))
        await b.run("3")
        server.leave()
        await b.run("4")
        await b.run("5")
        server.connect(tool_offer("a"), tool_offer("b"))
        await b.run("6")
    added = [json.dumps(body["messages"][-1]["content"]) for body in b.requests]
    assert "- one (1 tool): a" in added[0]
    assert "Instructions of the MCP server one:\\nBe kind." in added[0]
    assert "MCP" not in added[1]
    assert "- one (2 tools): a, b" in added[2]
    assert "not connected any more: one" in added[3]
    assert "MCP" not in added[4]
    assert "- one (2 tools): a, b" in added[5]


async def test_a_server_that_connects_again_is_not_reported_gone_and_calls_wait_for_it() -> None:
    server = connected("one", tool_offer("a"))
    b = with_servers("ok", reply(call("mcp__one__a")), "done", servers=(server,), mcp_limits=DEFERRING)
    async with b.engine:
        await b.run("1")
        server.leave("connecting", "")
        asyncio.get_running_loop().call_later(5, server.connect)
        await b.run("2")
    assert "not connected" not in texts(b.requests[-1])
    assert texts(b.requests[-1]).count("- one (1 tool): a") == 1
    assert server.calls == [("a", {})]


@pytest.mark.parametrize("query", ["select:mcp__late__echo", "echo"])
async def test_a_search_that_finds_nothing_waits_for_servers_that_connect(query: str) -> None:
    server = FakeServer("late", tool_offer("echo"))
    b = with_servers(reply(call("ToolSearch", query=query)), "done", servers=(server,), mcp_limits=DEFERRING)
    async with b.engine:
        asyncio.get_running_loop().call_later(5, server.connect)
        events = await b.run()
    assert [event.text for event in only(events, ev.ToolProgressed)] == ["waiting for late"]
    assert "mcp__late__echo" in tool_names(b.requests[1])


async def test_a_search_that_finds_nothing_names_servers_that_are_not_connected() -> None:
    broken, off = FakeServer("broken"), FakeServer("off")
    broken.leave("failed", "db-server: no such\x1b[31m program")
    off.leave("disabled", "")
    b = with_servers(reply(call("ToolSearch", query="query")), "done", servers=(broken, off, FakeServer("late")))
    await b.once()
    text = last_result(b)["content"][0]["text"]
    assert "broken (failed: db-server: no such program); off (disabled)." in text


async def test_a_direct_tool_that_vanishes_stays_in_the_prefix_and_its_calls_say_why() -> None:
    server = connected("one", tool_offer("a"))
    b = with_servers("ok", reply(call("mcp__one__a")), "done", servers=(server,))
    async with b.engine:
        await b.run("1")
        server.leave()
        events = await b.run("2")
    assert b.requests[0]["tools"] == b.requests[-1]["tools"]
    assert "The MCP server one is not connected (failed): it crashed" in last_result(b)["content"][0]["text"]
    assert only(events, ev.PrefixBroken) == []


async def test_a_deferred_tool_can_be_called_without_being_loaded_if_its_input_fits() -> None:
    offer = replace(
        tool_offer("a", number="integer"),
        input_schema={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    )
    server = connected("one", offer)
    b = with_servers(
        reply(call("mcp__one__a", number="x")),
        reply(call("mcp__one__a", number=3)),
        "done",
        servers=(server,),
        mcp_limits=DEFERRING,
    )
    await b.once()
    wrong = b.requests[1]["messages"][-1]["content"][0]["content"][0]["text"]
    assert "number: must be an integer" in wrong
    assert '{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}' in wrong
    assert server.calls == [("a", {"number": 3})]


async def test_tools_are_selected_by_name() -> None:
    server = connected("one", *many(30), tool_offer("other"))
    b = with_servers(
        reply(call("ToolSearch", query="select:mcp__one__get_thing_7,other,nothing")),
        reply(call("ToolSearch", query="select:nothing")),
        reply(call("ToolSearch", query="thing number", max_results=3)),
        "done",
        servers=(server,),
        mcp_limits=DEFERRING,
    )
    await b.once()
    found = [part["tool_name"] for part in b.requests[1]["messages"][-1]["content"][0]["content"]]
    assert found == ["mcp__one__get_thing_7", "mcp__one__other"]
    assert b.requests[2]["messages"][-1]["content"][0]["content"][0]["text"].startswith("No tool matches")
    assert len(b.requests[3]["messages"][-1]["content"][0]["content"]) == 3


@pytest.mark.parametrize("refused", [False, True])
async def test_models_and_endpoints_without_references_get_loaded_tools_as_ordinary_ones(refused: bool) -> None:
    server = connected("one", tool_offer("a"))
    profile = Profile(model="claude-sonnet-5-5" if refused else "local", small_model="local", system=("Be good.",))
    no = fails(400, "tools.2.custom.defer_loading: Extra inputs are not permitted", "invalid_request_error")
    replies = [reply(call("ToolSearch", query="a")), *([no] if refused else []), reply(call("mcp__one__a")), "done"]
    b = with_servers(*replies, servers=(server,), mcp_limits=DEFERRING, profile=profile)
    await b.once()
    assert b.requests[-1]["tools"][-1]["name"] == "mcp__one__a"
    assert "defer_loading" not in b.requests[-1]["tools"][-1]
    assert "tool_reference" not in texts(b.requests[-1])
    assert "You can call this tool now" in texts(b.requests[-1])
    assert server.calls == [("a", {})]


async def test_without_a_search_everything_is_direct_and_later_tools_break_the_prefix_with_a_reason() -> None:
    one, two = FakeServer("one", *many(100)), FakeServer("two", tool_offer("b"))
    one.connect()
    usage = {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9_000}

    limits = ServerToolLimits(ServerToolSettings(search="off"))
    b = with_servers(*[reply("ok", usage=usage)] * 2, servers=(one, two), mcp_limits=limits)
    async with b.engine:
        await b.run("1")
        two.connect()
        events = await b.run("2")
    assert "ToolSearch" not in tool_names(b.requests[0])
    assert len(tool_names(b.requests[0])) == 101
    assert tool_names(b.requests[1])[-1] == "mcp__two__b"
    (broken,) = only(events, ev.PrefixBroken)
    assert (broken.block, broken.reason) == ("the tool mcp__two__b", "tools of MCP servers were loaded")


def test_tools_that_a_rule_denies_or_the_user_turned_off_are_not_offered() -> None:
    server = connected("one", tool_offer("a"), tool_offer("b"), tool_offer("c"))
    server.disabled_tools = frozenset({"b"})

    policy = Policy(deny=parse_rules(["mcp__one__c", "ToolSearch"]))
    offer = ServerTools(fake_servers(server), ServerToolLimits(), policy.refuses_always, LoadedTools())
    offer.choose_direct_tools()
    assert offer.registry(Registry(())).names == ("mcp__one__a",)


async def test_resources_have_tools_when_a_server_has_some() -> None:
    server = connected("one", resources=resources("note://one", "note://two"))
    b = with_servers(
        reply(call("ListMcpResourcesTool")),
        reply(call("ListMcpResourcesTool", server="x")),
        "ok",
        servers=(server,),
    )
    await b.once()
    assert {"ListMcpResourcesTool", "ReadMcpResourceTool"} <= set(tool_names(b.requests[0]))
    listed = b.requests[1]["messages"][-1]["content"][0]["content"][0]["text"]
    assert listed == "one: note://one (one, text/plain)\none: note://two (two, text/plain)"
    assert "There is no MCP server called 'x'" in last_result(b)["content"][0]["text"]


_steps = st.lists(st.sampled_from(["prompt", "connect", "leave", "grow", "search", "call", "other"]), max_size=12)


@given(_steps)
def test_whatever_comes_and_goes_earlier_bytes_never_change(steps: list[str]) -> None:
    one, two = FakeServer("one", tool_offer("a")), FakeServer("two", tool_offer("b"))
    replies = {"search": reply(call("ToolSearch", query="does a b new")), "call": reply(call("mcp__one__a"))}
    script = [
        part
        for step in steps
        for part in ([replies[step], "ok"] if step in replies else ["ok"] if step == "prompt" else [])
    ]

    async def main() -> None:
        b = with_servers("ok", *script, servers=(one, two))
        broken = []
        async with b.engine:
            await b.run("first")
            for number, step in enumerate(steps):
                match step:
                    case "connect":
                        one.connect()
                    case "leave":
                        one.leave()
                    case "other":
                        two.connect()
                    case "grow":
                        two.connect(tool_offer("b"), tool_offer(f"new_{number}"))
                    case _:
                        broken += only(await b.run(f"prompt {number}"), ev.PrefixBroken)
        assert broken == []
        for before, now in zip(b.requests, b.requests[1:], strict=False):
            assert _prefix(now).startswith(_prefix(before)[:-1])
            assert _fixed_tools(before) == _fixed_tools(now)

    run_virtual(main)


def _prefix(body: Json) -> bytes:
    messages = [
        {
            **message,
            "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in message["content"]],
        }
        for message in body["messages"]
    ]
    return to_bytes(body["system"]) + to_bytes(messages)


def _fixed_tools(body: Json) -> bytes:
    return to_bytes([tool for tool in body["tools"] if "defer_loading" not in tool])


async def test_context_shows_what_each_server_costs() -> None:
    one, two = FakeServer("one", *many(20)), FakeServer("two", tool_offer("b"), always_load=True)
    one.connect()
    two.connect()
    b = with_servers(
        reply(call("ToolSearch", query="select:get_thing_3")), "ok", servers=(one, two), mcp_limits=DEFERRING
    )
    async with b.engine:
        await b.run()
        text = result_of(await collect(run_command(b.engine, "context", ""))).text
        first, second = b.engine.server_costs()
        items = {item.label: item.category for item in b.engine.context.items()}
        shown = b.engine.context.item_text("tool:mcp__one__get_thing_3")
    assert (first.direct, first.loaded, first.deferred) == (0, 1, 20)
    assert (second.direct, second.loaded, second.deferred) == (1, 0, 0)
    assert first.announced_tokens > 0
    assert second.announced_tokens == 0
    assert f"MCP server one: {first.tokens:,} tokens, 1 tool loaded, 19 tools deferred." in text
    assert f"MCP server two: {second.tokens:,} tokens, 1 tool in every request." in text
    assert items["mcp__one__get_thing_3"] == "tools"
    assert items["Tools and instructions of MCP servers"] == "mcp"
    assert '"name": "mcp__one__get_thing_3"' in shown


async def test_after_a_compaction_tools_are_announced_again_and_no_longer_loaded() -> None:
    server = connected("one", tool_offer("a"))
    b = with_servers(
        reply(call("ToolSearch", query="a")), "ok", "A summary.", "ok", servers=(server,), mcp_limits=DEFERRING
    )
    async with b.engine:
        await b.run("one")
        await collect(b.engine.compact())
        await b.run("two")
    assert b.refused == []
    assert "tool_reference" in texts(b.requests[2])
    assert "tool_reference" not in texts(b.requests[3])
    assert tool_names(b.requests[3]) == ["Look", "ToolSearch"]
    assert "- one (1 tool): a" in texts(b.requests[3])


@pytest.mark.parametrize("limits", [ServerToolLimits(), DEFERRING])
async def test_a_changed_definition_is_given_as_text_and_the_one_in_the_prefix_stays(
    limits: ServerToolLimits,
) -> None:
    server = connected("one", tool_offer("a", "The old one", old="string"))
    b = with_servers(
        reply(call("ToolSearch", query="select:a")),
        "ok",
        reply(call("ToolSearch", query="select:a")),
        reply(call("mcp__one__a", new=3)),
        "ok",
        servers=(server,),
        mcp_limits=limits,
    )
    async with b.engine:
        await b.run("one")
        server.connect(tool_offer("a", "The new one", new="integer"))
        events = await b.run("two")
    (text,) = b.requests[3]["messages"][-1]["content"][0]["content"]
    assert "These tools have changed" in text["text"]
    assert '"description": "The new one"' in text["text"]
    assert b.requests[1]["tools"] == b.requests[4]["tools"]
    assert server.calls == [("a", {"new": 3})]
    assert only(events, ev.PrefixBroken) == []


async def test_a_resource_is_read_after_a_question() -> None:
    server = FakeServer("one", resources=resources("note://one"))
    server.contents = {"note://one": (McpContent("resource", text="A \x1b[1mnote.", uri="note://one"),)}
    server.connect()
    tool = ReadMcpResource(fake_servers(server))

    context = context_in(Path("/"))
    given = {"server": "one", "uri": "note://one"}
    assert tool.needs(given, context) == (Need("other", "one:note://one", is_declared_read_only=True),)
    assert text_of(await run(tool, context, **given)) == "[Resource note://one]\nA note."
    server.leave()
    failed = await run(tool, context, **given)
    assert failed.is_error
    assert "The MCP server one is not connected" in text_of(failed)


# ---------------------------------------------------------------------------------------------- servers that change


async def test_servers_that_appear_or_are_replaced_during_a_session_can_be_called() -> None:
    first, other, later = FakeServer("one", tool_offer("a")), FakeServer("one"), FakeServer("two", tool_offer("b"))
    first.connect()
    b = with_servers("ok", reply(call("mcp__one__a", new=1)), reply(call("mcp__two__b")), "ok", servers=(first,))
    async with b.engine:
        await b.run("one")
        assert b.engine.session.mcp is not None
        first.leave("waiting")
        b.engine.session.mcp._servers = {"one": other, "two": later}
        other.connect(tool_offer("a", new="integer"))
        later.connect()
        await b.run("two")
    assert b.requests[0]["tools"] == b.requests[-1]["tools"]
    assert (first.calls, other.calls, later.calls) == ([], [("a", {"new": 1})], [("b", {})])


async def test_a_server_whose_tools_change_with_each_call_does_not_fill_the_context() -> None:
    server = connected("one", *(tool_offer(f"tool_{number}_0") for number in range(300)))
    calls = [0]

    async def answer(tool: str, arguments: Json, on_progress: object) -> McpResult:
        calls[0] += 1
        server.connect(*(tool_offer(f"tool_{number}_{calls[0]}") for number in range(300)))
        return text_result("ok")

    server.answer = answer

    replies = [reply(call(f"mcp__one__tool_0_{number}")) for number in range(20)]
    b = with_servers(*replies, "ok", servers=(server,), mcp_limits=DEFERRING)
    events = await b.once("one")
    assert calls == [20]
    assert texts(b.requests[-1]).count("- one (300 tools)") == MAX_ANNOUNCED
    assert texts(b.requests[-1]).count("Further changes are not listed") == 1
    assert b.requests[0]["tools"] == b.requests[-1]["tools"]
    assert only(events, ev.PrefixBroken) == []
