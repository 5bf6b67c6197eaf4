"""The task budget: only the total, so that the prefix stays cached; after a compaction also the remainder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentcli.context.estimate import message_tokens
from agentcli.core.messages import Origin
from agentcli.tools.base import Output
from tests.agent.loop.test_scenarios import PROFILE
from tests.support.fakes import FakeTool, bench, result_of
from tests.support.scripts import call, fails, reply

pytestmark = pytest.mark.virtual

TOO_LONG = fails(400, "prompt is too long: 250000 tokens > 200000 maximum")
BUDGETED = replace(PROFILE, task_budget=50_000)


def budget(body: Any) -> Any:
    return body["output_config"]["task_budget"]


def looking(what: str) -> Any:
    return reply(call("Look", what=what), usage={"input_tokens": 10, "output_tokens": 700})


async def test_remaining_is_sent_from_the_first_compaction_on_and_then_stays() -> None:
    tool = FakeTool(output=lambda given: Output(f"{given} " * 100))
    summary = reply("A summary.", match="write a hand-over", repeat=True)
    replies = (looking("a"), looking("b"), TOO_LONG, looking("c"), looking("d"), "Done.", "Next.")
    b = bench(summary, *replies, tools=[tool], profile=BUDGETED)
    async with b.engine:
        assert result_of(await b.run("go " * 100)).text == "Done."
        results = [m for m in b.engine.messages if m.origin is Origin.TOOL_RESULTS and not m.is_copy]
        await b.run("and now?")
    total = {"type": "tokens", "total": 50_000}
    before = b.requests[:4]
    assert [budget(body) for body in before] == [total] * 4, "also in the request for the summary"
    spent = 2 * 700 + sum(map(message_tokens, results[:2]))
    assert [budget(body) for body in b.requests[4:7]] == [{**total, "remaining": 50_000 - spent}] * 3
    assert budget(b.requests[7]) == total, "every prompt has the whole budget"
