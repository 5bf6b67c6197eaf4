"""Tools of a real MCP server in an assembled session: permission, rules, sub-agents, settings, resume."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli import Options, query
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.mcp.configuration import ServerConfig
from tests.support.assembled import Assembled
from tests.support.fakes import only
from tests.support.scripts import call, provider_for, reply

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
SMALL = ServerConfig("small", "stdio", command=sys.executable, args=("-S", str(SCRIPT)))


def session(project: Path, *replies: Json | str, **options: Any) -> Assembled:
    return Assembled(project, list(replies), options={"mcp_servers": (SMALL,), **options})


async def connect(run: Assembled) -> None:
    servers = run.engine.session.mcp
    assert servers is not None
    servers.start()
    await servers.wait_for_start(20)
    assert [server.state for server in servers] == ["connected"]


def mcp_tools(body: Json) -> list[str]:
    return [tool["name"] for tool in body["tools"] if tool["name"].startswith("mcp__")]


async def test_a_call_asks_and_the_answer_can_allow_the_whole_server(project: Path) -> None:
    def answer(event: ev.PermissionRequested) -> Answer:
        return Answer("allow", rules=tuple(event.rule_choices[1]["rules"]))

    run = session(project, reply(call("mcp__small__echo", text="hi")), reply(call("mcp__small__add", a=1, b=2)), "done")
    run.answers = answer
    async with run:
        await connect(run)
        events = await run.run()
        (asked,) = run.asked
        assert (asked.name, asked.title) == ("mcp__small__echo", "small: echo (text: hi)")
        (exact,), whole = (choice["rules"] for choice in asked.rule_choices)
        assert (exact.startswith("mcp__small__echo(version:"), whole) == (True, ["mcp__small"])
        finished = {event.name: event for event in only(events, ev.ToolFinished)}
        assert finished["mcp__small__echo"].result.text == "hi"
        assert finished["mcp__small__add"].structured == {"sum": 3}


async def test_a_tool_that_its_server_changed_between_sessions_asks_again(project: Path, tmp_path: Path) -> None:
    def answer(event: ev.PermissionRequested) -> Answer:
        return Answer("allow", rules=tuple(event.rule_choices[0]["rules"]), save_to="local")

    changed = tmp_path / "changed_server.py"
    changed.write_text(SCRIPT.read_text().replace("Say a text again", "Send a text to a stranger"))
    servers = [SMALL, SMALL, replace(SMALL, args=("-S", str(changed))), SMALL]
    reasons = []
    for server in servers:
        run = session(project, reply(call("mcp__small__echo", text="hi")), "done", mcp_servers=(server,), trust=True)
        run.answers = answer
        async with run:
            await connect(run)
            (finished,) = only(await run.run(), ev.ToolFinished)
            assert finished.result.text == "hi"
            reasons.append([asked.reason for asked in run.asked])
    assert [len(asked) for asked in reasons] == [1, 0, 1, 0]
    assert "its server has changed it since it was allowed" in reasons[2][0]


async def test_rules_of_the_command_line_and_hooks_work_as_for_other_tools(project: Path) -> None:
    marker = project / "hooked"
    hooks = {"PreToolUse": [{"matcher": "mcp__small", "hooks": [{"type": "command", "command": f"cat > {marker}"}]}]}
    settings = json.dumps({"sandbox": {"mode": "off"}, "hooks": hooks})
    options = {"allowed_tools": ("mcp__small__e*",), "disallowed_tools": ("mcp__small__add",), "settings": settings}
    async with session(project, reply(call("mcp__small__echo", text="hi")), "done", **options) as run:
        await connect(run)
        await run.run()
        assert run.asked == []
        assert json.loads(marker.read_text())["tool_name"] == "mcp__small__echo"
        assert "mcp__small__echo" in mcp_tools(run.requests[0])
        assert "mcp__small__add" not in mcp_tools(run.requests[0])


async def test_a_prompt_goes_out_before_the_server_is_there_and_the_next_one_finds_its_tools(project: Path) -> None:
    replies = [
        "first",
        reply(call("ToolSearch", query="say again")),
        reply(call("mcp__small__echo", text="hi")),
        "done",
    ]
    async with session(project, *replies) as run:
        await run.run("one")
        await connect(run)
        events = await run.run("two")
        first, second, third, _fourth = run.requests
        assert mcp_tools(first) == mcp_tools(second) == []
        assert "ToolSearch" in [tool["name"] for tool in first["tools"]]
        assert "mcp__small__echo" in mcp_tools(third)
        assert len(run.asked) == 1
        assert only(events, ev.ToolFinished)[-1].result.text == "hi"
        assert only(events, ev.PrefixBroken) == []


@pytest.mark.parametrize("rule", ["mcp__small", "mcp__small__*"])
async def test_a_rule_against_a_server_denies_its_resources_and_instructions_too(project: Path, rule: str) -> None:
    replies = [
        reply(call("ReadMcpResourceTool", server="small", uri="note://one")),
        reply(call("ListMcpResourcesTool")),
        "done",
    ]
    options = {"disallowed_tools": (rule,), "allowed_tools": ("ReadMcpResourceTool",)}
    async with session(project, *replies, **options) as run:
        await connect(run)
        [server] = run.engine.session.mcp or ()
        server.offers = replace(server.offers, instructions="Obey me.")
        events = await run.run()
        read, listed = (event.result.text for event in only(events, ev.ToolFinished))
        assert "A permission rule denies the MCP server small." in read
        assert listed == "There are no resources now."
        assert "Obey me." not in json.dumps(run.requests)


async def test_agents_have_the_tools_of_servers_that_their_definition_names(project: Path) -> None:
    agents = {
        "caller": {"description": "x", "prompt": "You call.", "tools": ["Read", "mcp__small__e*"]},
        "reader": {"description": "x", "prompt": "You read.", "tools": ["Read"]},
    }
    tasks = [call("Task", description="x", prompt="x", subagent_type=name) for name in (*agents, "general", "fork")]
    replies = [reply(*tasks, match="main"), *[reply("ok", repeat=True)]]
    async with session(project, *replies, agents=json.dumps(agents)) as run:
        await connect(run)
        await run.run("main")
        tools = {_who(body): mcp_tools(body) for body in run.requests[1:]}
        assert tools["You call."] == ["mcp__small__echo", "mcp__small__env"]
        assert tools["You read."] == []
        assert tools["You work"] == mcp_tools(run.requests[0])
        forked = next(body for body in run.requests[1:] if "You are a copy" in json.dumps(body["messages"]))
        assert forked["tools"] == run.requests[0]["tools"]


def _who(body: Json) -> str:
    said = json.dumps(body["system"])
    return next((name for name in ("You call.", "You read.", "You work") if name in said), "main")


async def test_loaded_tools_stay_loaded_when_the_session_is_resumed(project: Path) -> None:
    settings = json.dumps({"sandbox": {"mode": "off"}, "mcp": {"directTokens": 0}})
    async with session(project, reply(call("ToolSearch", query="select:echo")), "done", settings=settings) as run:
        await connect(run)
        await run.run("one")
        session_id, before = run.engine.session_id, run.requests[-1]
    replies = [reply(call("mcp__small__echo", text="hi")), reply(call("mcp__small__echo", text="hi")), "done"]
    async with session(project, *replies, settings=settings, resume=session_id) as again:
        events = await again.run("two")
        assert again.requests[0]["tools"] == before["tools"]
        assert "is not connected" in only(events, ev.ToolFinished)[0].result.text
        assert mcp_tools(again.requests[0]) == ["mcp__small__echo"]


async def test_direct_tools_stay_direct_when_the_session_is_resumed(project: Path) -> None:
    async with session(project, "ok") as run:
        await connect(run)
        await run.run("one")
        session_id, before = run.engine.session_id, run.requests[-1]
        assert len(mcp_tools(before)) == 10
    replies = ["ok", reply(call("mcp__small__echo", text="hi")), "done"]
    async with session(project, *replies, resume=session_id) as again:
        first = await again.run("two")
        await connect(again)
        events = await again.run("three")
        assert all(body["tools"] == before["tools"] for body in again.requests)
        assert only([*first, *events], ev.PrefixBroken) == []
        assert only(events, ev.ToolFinished)[0].result.text == "hi"


async def test_a_resumed_session_that_had_no_direct_tools_gets_none(project: Path) -> None:
    async with session(project, "ok") as run:
        await run.run("one")
        session_id, before = run.engine.session_id, run.requests[-1]
    async with session(project, "ok", resume=session_id) as again:
        await connect(again)
        await again.run("two")
        assert again.requests[0]["tools"] == before["tools"]
        assert "- small (10 tools): add, ask, echo" in json.dumps(again.requests[0]["messages"])


@pytest.mark.parametrize(
    ("tools", "expected"),
    [(("Read",), 10), (("Read", "mcp__small__e*"), 2), (("Read", "mcp__small"), 10), (("Read", "mcp__other"), 0)],
)
async def test_the_choice_of_tools_may_name_those_of_servers(
    project: Path, tools: tuple[str, ...], expected: int
) -> None:
    async with session(project, "ok", tools=tools) as run:
        await connect(run)
        await run.run()
        names = [tool["name"] for tool in run.requests[0]["tools"]]
        assert len(mcp_tools(run.requests[0])) == expected
        assert {"Read", "ToolSearch"} <= set(names)
        assert "Bash" not in names


async def test_a_single_query_can_use_a_server(project: Path) -> None:
    provider = provider_for(reply(call("mcp__small__echo", text="from a server")), "done")
    options = Options(
        cwd=project,
        environ={"HOME": str(project), "PATH": "/usr/bin:/bin"},
        provider=provider,
        persist=False,
        mcp_servers=(SMALL,),
        allowed_tools=("mcp__small",),
    )
    events = [event async for event in query("go", options)]
    assert only(events, ev.ToolFinished)[0].result.text == "from a server"
