"""What MCP servers may ask of an assembled session."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.mcp.configuration import ServerConfig
from tests.support.assembled import Assembled

pytestmark = pytest.mark.anyio
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
SMALL = ServerConfig("small", "stdio", command=sys.executable, args=("-S", str(SCRIPT)))


def assembled(folder: Path, *replies: str, **options: Any) -> Assembled:
    return Assembled(folder, list(replies), options={"mcp_servers": (SMALL,), **options})


async def connected(run: Assembled) -> None:
    servers = run.engine.session.mcp
    assert servers is not None
    servers.start()
    await servers.wait_for_start(20)


async def asks(run: Assembled, tool: str, answer: Answer) -> Json:
    """The result of a tool whose request is answered while nothing else runs."""
    servers, questions = run.engine.session.mcp, run.engine.session.server_questions
    assert servers is not None
    assert questions is not None
    server = servers.get("small")
    assert server is not None
    questions.take_events()
    listening = asyncio.create_task(questions.wait_for_events())
    await asyncio.sleep(0)
    calling = asyncio.create_task(server.call(tool, {}))
    await asyncio.wait({listening, calling}, return_when=asyncio.FIRST_COMPLETED)
    if listening.done():
        (question,) = listening.result()
        assert isinstance(question, ev.PermissionRequested)
        assert run.engine.answer(question.request_id, answer)
    await cancel_and_wait([listening])
    (content,) = (await calling).content
    found: Json = json.loads(content.text)
    return found


async def test_a_user_fills_in_a_form_and_allows_a_reply_of_the_model(tmp_path: Path) -> None:
    async with assembled(tmp_path, "Hello!") as run:
        await connected(run)
        filled = await asks(run, "ask", Answer("allow", updated_input={"content": {"name": "Ada"}}))
        assert filled == {"action": "accept", "content": {"name": "Ada"}}
        said = await asks(run, "think", Answer("allow"))
        assert said["content"]["text"] == "Hello!"
        assert run.engine.costs.totals.cost_usd > 0


async def test_a_run_without_a_user_claims_nothing(tmp_path: Path) -> None:
    async with assembled(tmp_path, interactive=False) as run:
        await connected(run)
        for tool in ("ask", "think"):
            assert (await asks(run, tool, Answer("allow")))["error"]


async def test_a_budget_of_nothing_switches_sampling_off(tmp_path: Path) -> None:
    async with assembled(tmp_path, settings='{"sandbox": {"mode": "off"}, "mcp": {"samplingBudgetUsd": 0}}') as run:
        await connected(run)
        assert (await asks(run, "think", Answer("allow")))["error"]
        assert (await asks(run, "ask", Answer("deny")))["action"] == "decline"
