"""`--agents` and `--agent`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from tests.support.assembled import Assembled
from tests.support.fakes import only
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio
REVIEWER = (
    '{"Reviewer": {"description": "Reviews.", "prompt": "You review.", "tools": ["Read", "Grep"], "maxTurns": 3}}'
)


async def test_agents_of_the_flag_can_be_started(tmp_path: Path) -> None:
    started = call("Task", description="a review", prompt="look", subagent_type="reviewer")
    replies: list[Json | str] = [reply(started), reply("Fine.", match="You review"), "Done."]
    async with Assembled(tmp_path, replies, options={"agents": REVIEWER}) as run:
        events = await run.run()
        assert only(events, ev.SessionStarted)[0].agents == ["explore", "fork", "general", "plan", "reviewer"]
        assert run.results == ["Fine."]
        assert [tool["name"] for tool in run.requests[1]["tools"]] == ["Read", "Grep"]


async def test_a_session_can_run_as_an_agent(tmp_path: Path) -> None:
    async with Assembled(tmp_path, ["Fine."], options={"agents": REVIEWER, "agent": "reviewer"}) as run:
        await run.run()
        assert [tool["name"] for tool in run.requests[0]["tools"]] == ["Read", "Grep"]
        assert run.requests[0]["system"][0]["text"].startswith("You review.")
        assert "Your last message is your report" not in str(run.requests[0]["system"])


async def test_a_session_as_a_read_only_agent_has_no_tool_that_changes_something(tmp_path: Path) -> None:
    async with Assembled(tmp_path, ["Fine."], options={"agent": "plan"}) as run:
        await run.run()
        assert not {"Bash", "Write", "Edit"} & {tool["name"] for tool in run.requests[0]["tools"]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"agent": "nobody"}, "There is no agent called 'nobody'. There are: explore, general, plan."),
        ({"agent": "fork"}, "There is no agent called 'fork'."),
        ({"agents": "{"}, "--agents is not JSON"),
        ({"agents": "[]"}, "one entry per agent"),
        ({"agents": '{"x": 1}'}, "--agents: x needs an object"),
        ({"agents": '{"x": {"prompt": "You."}}'}, "description must be a text and is needed"),
        ({"agents": '{"x": {"description": "d", "prompt": "p", "tools": "Read"}}'}, "tools must be a list"),
        ({"agents": '{"x": {"description": "d", "prompt": "p", "maxTurns": 0}}'}, "maxTurns must be a number"),
    ],
)
async def test_mistakes_are_explained(options: Json, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text.replace("?", r"\?")):
        async with Assembled(tmp_path, [], options=options):
            pass
