"""The advisor: a model that the server consults during a reply. Its usage, its blocks, and what the user sees of it."""

from __future__ import annotations

from typing import Any

import pytest

from agentcli.agent.profile import Profile
from agentcli.core import events as ev
from agentcli.core.messages import Json
from tests.support.fakes import Bench, bench, collect, only, result_of
from tests.support.scripts import event, fails, pause, reply, say

pytestmark = pytest.mark.virtual

EXECUTOR, ADVISOR = "claude-sonnet-5-5", "claude-opus-5-5"
CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}}
TOOL = {"type": "advisor_20260301", "name": "advisor", "model": ADVISOR}
USED: Json = {
    "input_tokens": 1_000,
    "output_tokens": 500,
    "iterations": [
        {"type": "message", "input_tokens": 1_000, "output_tokens": 100},
        {"type": "advisor_message", "model": ADVISOR, "input_tokens": 2_000, "output_tokens": 300},
        {"type": "message", "input_tokens": 1_500, "output_tokens": 400},
    ],
}


def result(**content: Any) -> Json:
    return {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


def block(index: int, data: Json) -> tuple[Json, Json]:
    start = {"type": "content_block_start", "index": index, "content_block": data}
    return event(start), event({"type": "content_block_stop", "index": index})


def advised(data: Json) -> Json:
    return reply(say("I ask."), *block(1, CALL), *block(2, data), say("Done."), usage=USED)


ADVICE = result(type="advisor_result", text="Use a \x1b[31mlock.", stop_reason=None)


def bench_with(*replies: Json | str, advisor: str = ADVISOR, **rest: Any) -> Bench:
    profile = Profile(EXECUTOR, "claude-haiku-5-5", system=("Be good.",), advisor=advisor)
    return bench(*replies, profile=profile, **rest)


async def test_tokens_and_costs_count_for_the_model_that_used_them() -> None:
    b = bench_with(advised(ADVICE), "Bye.")
    async with b.engine:
        events = await b.run()
        by_model = b.engine.costs.totals.by_model
        assert (by_model[EXECUTOR].usage.prompt_tokens, by_model[EXECUTOR].usage.output_tokens) == (1_000, 500)
        assert (by_model[ADVISOR].usage.prompt_tokens, by_model[ADVISOR].usage.output_tokens) == (2_000, 300)
        assert by_model[EXECUTOR].cost_usd == pytest.approx(0.002 + 0.005)
        assert by_model[ADVISOR].cost_usd == pytest.approx(0.008 + 0.006)
        ended = result_of(events)
        assert ended.total_cost_usd == pytest.approx(0.021)
        assert ended.model_usage[ADVISOR]["costUSD"] == pytest.approx(0.014)
        assert sum((e.usage.output_tokens for e in only(events, ev.UsageReported)), 0) == ended.usage.output_tokens
        assert set(b.engine.costs.spending.by_purpose.by_model) == {"turn", "advisor"}
        assert b.engine.context.outlook().tokens < 2_000, "the advisor's context is not this one"


async def test_the_blocks_are_sent_back_as_they_came() -> None:
    b = bench_with(advised(ADVICE), "Bye.")
    async with b.engine:
        await b.run()
        await b.run()
    assert b.requests[0]["tools"] == [TOOL]
    assert b.requests[1]["messages"][1]["content"][1:3] == [CALL, ADVICE]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (ADVICE, f"Advice from {ADVISOR}: Use a lock."),
        (
            result(type="advisor_tool_result_error", error_code="max_uses_exceeded"),
            "did not answer: max uses exceeded.",
        ),
        (result(type="advisor_redacted_result", encrypted_content="x"), f"{ADVISOR} gave advice that only the model"),
    ],
)
async def test_the_user_sees_the_advice(data: Json, said: str) -> None:
    b = bench_with(advised(data))
    [notice] = [one for one in only(await b.once(), ev.NoticeRaised) if one.code == "advisor"]
    assert said in notice.text


async def test_a_consultation_that_was_interrupted_is_not_sent_back() -> None:
    b = bench_with(reply(say("I ask."), *block(1, CALL), pause(60), say("Done.")), "Bye.")
    async with b.engine:
        events = []
        async for one in b.engine.submit("go"):
            events.append(one)
            if isinstance(one, ev.BlockFinished) and one.index == 1:
                b.engine.abort()
        assert result_of(events).terminal == "aborted_streaming"
        await b.run()
    assert [part["type"] for part in b.requests[1]["messages"][1]["content"]] == ["text"]


async def test_a_refused_advisor_is_left_out_with_its_earlier_blocks() -> None:
    refusal = fails(400, "tools.0: advisor model claude-opus-5-5 cannot advise claude-sonnet-5-5")
    b = bench_with(advised(ADVICE), refusal, "Hello.", "Again.")
    async with b.engine:
        await b.run()
        [dropped] = only(await b.run(), ev.FeatureDropped)
        assert (dropped.text, dropped.requested) == (
            "The server refused the advisor; requests continue without it.",
            True,
        )
        assert only(await b.run(), ev.FeatureDropped) == []
    for body in b.requests[2:]:
        assert "tools" not in body
        assert [part["type"] for part in body["messages"][1]["content"]] == ["text", "text"]


async def test_a_session_without_an_advisor_leaves_out_what_an_earlier_one_said() -> None:
    first = bench_with(advised(ADVICE))
    async with first.engine:
        await first.run()
        log = first.engine.messages
    b = bench_with("Hello.", advisor="", log=tuple(log))
    async with b.engine:
        await collect(b.engine.submit("go"))
    assert b.refused == []
    assert "advisor" not in str(b.requests[0]["messages"])
