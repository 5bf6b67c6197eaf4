"""Sub-agents of the assembled engine: their context, tools, rights, files and transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import Json
from tests.support.assembled import Assembled
from tests.support.fakes import only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\n")
    return folder


def task(prompt: str = "CHILD look", **rest: Any) -> Json:
    return call("Task", description="look around", prompt=prompt, **rest)


async def test_an_agent_works_in_its_own_context_and_reports(project: Path) -> None:
    replies: list[Json | str] = [
        reply(task(subagent_type="explore")),
        reply(call("Read", file_path="a.txt")),
        "There is alpha.",
        "The agent found alpha.",
    ]
    async with Assembled(project, replies) as run:
        events = await run.run("find it")
        assert result_of(events).text == "The agent found alpha."
        assert run.results == ["There is alpha."]
        child = [event for event in events if event.agent == "explore-1"]
        assert isinstance(child[0], ev.AgentStarted)
        assert isinstance(child[-1], ev.AgentFinished)
        assert child[-1].status == "completed"
        assert "Read" in [event.name for event in only(child, ev.ToolStarted)]
        main, first, *_ = run.requests
        assert first["model"] == "claude-haiku-5-5"
        assert "You explore a code base" in str(first["system"])
        assert "Write" not in [tool["name"] for tool in first["tools"]]
        assert len(first["messages"]) == 1
        assert main["tools"] == run.requests[-1]["tools"]
        assert set(run.engine.costs.spending.by_agent.by_model) == {"main", "explore-1"}
