"""Questions of MCP servers in a session: at any time, one after the other, and never lost with a submission."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.mcp.requests import CANCELLED, SessionRequests
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.submission import is_of_server
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import InputAnswer, InputRequest
from agentcli.mcp.servers import McpServers
from agentcli.tools.base import Output, Progress, ToolContext
from tests.interactive.test_driver import Driven
from tests.support.fakes import FakeTool
from tests.support.scripts import call, pause, reply

pytestmark = pytest.mark.virtual

FORM = InputRequest("small", "Who are you?", {"properties": {"name": {"type": "string"}}})
NAMED = Answer("allow", updated_input={"content": {"name": "Ada"}})


@dataclass
class AskingTool(FakeTool):
    name: str = "Ask"
    requests: SessionRequests = field(default_factory=SessionRequests)
    answers: list[InputAnswer] = field(default_factory=list)

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        self.answers.append(await self.requests.elicit(FORM))
        yield Output("asked")


class Served(Driven):
    """A driven session with MCP servers; `tool` asks the user while it runs."""

    def __init__(self, *replies: Any, tools: tuple[Any, ...] = (), **rest: Any) -> None:
        self.requests = SessionRequests(interactive=True)
        around = ServerSurroundings(Path("/work"))
        servers = McpServers([ServerConfig("small", "stdio", command="/none")], around, self.requests)
        self.tool = AskingTool(requests=self.requests)
        super().__init__(*replies, tools=[self.tool, *tools], mcp=servers, interactive=True, **rest)

    async def asked(self, count: int) -> list[ev.PermissionRequested]:
        await self.until(lambda: len(self.record.asked) >= count)
        found = [event for event in self.record.asked if isinstance(event, ev.PermissionRequested)]
        assert len(found) == count
        return found


async def test_a_server_asks_while_nothing_runs() -> None:
    async with Served() as served:
        await asyncio.sleep(0)
        waiting = asyncio.create_task(served.requests.elicit(FORM))
        (question,) = await served.asked(1)
        served.driver.answer(question.request_id, NAMED)
        assert await waiting == InputAnswer("accept", {"name": "Ada"})


async def test_a_question_outlives_the_submission_that_runs_beside_it() -> None:
    async with Served(reply(pause(1), "Hello.")) as served:
        await asyncio.sleep(0)
        waiting = asyncio.create_task(served.requests.elicit(FORM))
        (question,) = await served.asked(1)
        served.send("go")
        await served.idle()
        assert not [line for line in served.record.log if line.startswith("withdraw")]
        served.driver.answer(question.request_id, NAMED)
        assert (await waiting).action == "accept"


async def test_a_question_of_a_server_and_the_permission_of_another_call_are_asked_in_turn() -> None:
    guarded = FakeTool("Write", need="write", safe=True)
    calls = reply(call("Write"), call("Ask"))
    async with Served(calls, "Done.", tools=(guarded,), mode=PermissionMode.DEFAULT) as served:
        served.send("go")
        await served.asked(1)
        await served.until(lambda: "waiting 1" in served.record.log)
        for count in (1, 2):
            question = (await served.asked(count))[-1]
            served.driver.answer(question.request_id, NAMED if is_of_server(question) else Answer("allow"))
        assert [is_of_server(each) for each in served.record.asked].count(True) == 1
        await served.until(lambda: "Done." in served.record.log)
        await served.idle()
    assert served.tool.answers == [InputAnswer("accept", {"name": "Ada"})]
    assert guarded.ended == ["done"]


async def test_closing_the_question_cancels_the_request_and_the_work_continues() -> None:
    async with Served(reply(call("Ask"), call("Ask")), "Done.") as served:
        served.send("go")
        (first,) = await served.asked(1)
        await served.until(lambda: "waiting 1" in served.record.log)
        served.driver.answer(first.request_id, CANCELLED)
        await served.until(lambda: "Done." in served.record.log)
        await served.idle()
    assert [answer.action for answer in served.tool.answers] == ["cancel", "cancel"]
    assert "interrupted" not in served.record.log


async def test_an_interruption_closes_the_question() -> None:
    async with Served(reply(call("Ask"))) as served:
        served.send("go")
        (question,) = await served.asked(1)
        assert served.driver.interrupt()
        await served.idle()
        await served.until(lambda: f"withdraw {question.request_id}" in served.record.log)
    assert [answer.action for answer in served.tool.answers] == ["cancel"]


async def test_two_servers_that_ask_at_once_are_asked_about_one_after_the_other() -> None:
    async with Served() as served:
        await asyncio.sleep(0)
        other = InputRequest("other", "And you?", FORM.schema)
        both = [asyncio.create_task(served.requests.elicit(each)) for each in (FORM, other)]
        (first,) = await served.asked(1)
        served.driver.answer(first.request_id, Answer("deny"))
        _first, second = await served.asked(2)
        served.driver.answer(second.request_id, NAMED)
        assert [(await each).action for each in both] == ["decline", "accept"]
        assert [each.display["server"] for each in (first, second)] == ["small", "other"]
