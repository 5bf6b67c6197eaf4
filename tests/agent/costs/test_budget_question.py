"""At the budget's cap the user is asked, before a request and never inside one; the answer decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentcli.agent.costs.costs import LIFT, STOP, dollars, suggest_cap
from agentcli.agent.profile import Bounds, Profile
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.interactive.wording import result_line
from tests.support.fakes import Bench, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.virtual

DEAR = {"input_tokens": 100_000}
"""20 cents."""


def looks(number: int) -> Json:
    return reply(call("Look", what=str(number)), usage=DEAR)


def somebody(*replies: Json | str, cap: float = 0.15, **rest: Any) -> Bench:
    rest.setdefault("tools", [FakeTool()])
    return bench(*replies, interactive=True, bounds=Bounds(max_budget_usd=cap), **rest)


def chosen(event: ev.PermissionRequested, said: str) -> Answer:
    question = event.input["questions"][0]["question"]
    return Answer("allow", updated_input={**event.input, "answers": {question: said}})


def first_option(event: ev.PermissionRequested) -> str:
    return str(event.input["questions"][0]["options"][0]["label"])


async def answered(b: Bench, work: Any, *said: str) -> list[ev.Event]:
    """Play to the end; the questions get these answers in turn, "" stands for the first option."""
    left, events = list(said), []
    async for event in work:
        events.append(event)
        if isinstance(event, ev.PermissionRequested):
            assert b.engine.answer(event.request_id, chosen(event, left.pop(0) or first_option(event)))
    assert left == []
    assert b.refused == []
    return events


def asked(events: list[ev.Event]) -> list[str]:
    return [event.input["questions"][0]["question"] for event in only(events, ev.PermissionRequested)]


async def test_the_time_that_the_user_takes_for_answers_is_no_work() -> None:
    b = somebody(looks(1), looks(2), "Done.", tools=[FakeTool(seconds=5)])
    async with b.engine:
        events: list[ev.Event] = []
        async for event in b.engine.submit("go"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                answer = b.engine.answer, event.request_id, chosen(event, first_option(event))
                asyncio.get_running_loop().call_later(60, *answer)
        result = result_of(events)
        assert result.duration_ms - result.waited_ms < 20_000
        assert 119_000 < result.waited_ms < 121_000
        text, _level, _errors = result_line(result) or ("", "", ())
        assert text == "10 s · 3 turns"


async def test_raising_the_budget_continues_the_interrupted_work() -> None:
    tool = FakeTool(seconds=5)
    b = somebody(looks(1), looks(2), "Done.", tools=[tool])
    async with b.engine:
        events = await answered(b, b.engine.submit("go"), "", "5")
        assert asked(events) == [
            "The budget of $0.15 is spent ($0.20).",
            "The budget of $0.30 is spent ($0.40).",
        ]
        assert first_option(only(events, ev.PermissionRequested)[0]) == "Raise it to $0.30 and continue"
        assert (result_of(events).terminal, result_of(events).text) == ("completed", "Done.")
        assert tool.ended == ["done", "done"], "what a reply has begun is finished"
        assert len(b.requests) == 3
        assert b.engine.costs.budget.cap == 5.0
        resolved = [event.behavior for event in only(events, ev.PermissionResolved)]
        assert resolved == ["allow", "allow"]


async def test_stopping_is_resumable_and_the_next_prompt_asks_again() -> None:
    b = somebody(looks(1), "Done.")
    async with b.engine:
        events = await answered(b, b.engine.submit("go"), STOP)
        assert result_of(events).terminal == "max_budget_usd"
        assert "Nothing is lost" in result_of(events).errors[0]
        assert len(b.requests) == 1
        assert b.engine.messages[-1].tool_results, "the results wait for whoever goes on"
        events = await answered(b, b.engine.submit("go on"), "off")
        assert result_of(events).text == "Done."
        assert b.engine.costs.budget.cap is None


@pytest.mark.parametrize("answer", [Answer("deny"), Answer("allow"), Answer("allow", updated_input={"answers": [1]})])
async def test_a_no_or_an_empty_answer_stops(answer: Answer) -> None:
    b = somebody(looks(1), "Done.")
    events = []
    async with b.engine:
        async for event in b.engine.submit("go"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                b.engine.answer(event.request_id, answer)
        assert result_of(events).terminal == "max_budget_usd"
        assert len(b.requests) == 1


async def test_an_invalid_or_too_small_amount_is_asked_for_again() -> None:
    b = somebody(looks(1), "Done.")
    async with b.engine:
        events = await answered(b, b.engine.submit("go"), "plenty", "0.18", "$2")
        assert asked(events)[1:] == [
            "“plenty” is not an amount in dollars. The budget of $0.15 is spent ($0.20).",
            "$0.18 is not more than you have spent. The budget of $0.15 is spent ($0.20).",
        ]
        assert result_of(events).text == "Done."
        assert b.engine.costs.budget.cap == 2.0


async def test_esc_at_the_question_is_an_interruption() -> None:
    b = somebody(looks(1), "Done.")
    events = []
    async with b.engine:
        async for event in b.engine.submit("go"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                b.engine.abort(AbortReason.USER_CANCEL)
        assert result_of(events).terminal == "aborted_streaming"
        assert [event.behavior for event in only(events, ev.PermissionResolved)] == ["withdrawn"]
        assert len(b.requests) == 1
        assert not b.engine.session.questions._open


async def test_a_final_answer_that_exceeds_the_budget_is_still_a_success() -> None:
    b = somebody(reply("Done.", usage=DEAR), "More.")
    async with b.engine:
        events = await answered(b, b.engine.submit("go"))
        assert (result_of(events).terminal, result_of(events).text) == ("completed", "Done.")
        events = await answered(b, b.engine.submit("more"), "")
        assert result_of(events).text == "More."


async def test_a_compaction_over_budget_asks_first() -> None:
    b = somebody(reply("Done.", usage=DEAR))
    async with b.engine:
        await answered(b, b.engine.submit("go"))
        events = await answered(b, run_command(b.engine, "compact", ""), STOP)
        assert result_of(events).terminal == "max_budget_usd"
        assert len(b.requests) == 1


async def test_a_compaction_that_uses_up_the_budget_ends_like_a_turn() -> None:
    b = bench("Done. " * 2_000, reply("A summary.", usage=DEAR), bounds=Bounds(max_budget_usd=0.15))
    async with b.engine:
        await collect(b.engine.submit("go"))
        result = result_of(await collect(run_command(b.engine, "compact", "")))
        assert result.terminal == "max_budget_usd"
        assert result.errors == [b.engine.costs.budget.text]


async def test_with_an_unknown_price_the_budget_can_only_be_removed() -> None:
    profile = Profile(model="my-llama", small_model="my-llama")
    b = somebody(looks(1), "Done.", profile=profile)
    async with b.engine:
        events = await answered(b, b.engine.submit("go"), "")
        [question] = only(events, ev.PermissionRequested)
        assert "The price of my-llama is unknown" in asked(events)[0]
        assert first_option(question) == LIFT
        assert result_of(events).text == "Done."
        assert b.engine.costs.budget.cap is None


def test_amounts_as_people_write_them() -> None:
    assert [dollars(text) for text in ("5", "$0.50", "2 dollars", "1.5 USD", " 3$ ")] == [5.0, 0.5, 2.0, 1.5, 3.0]
    assert [dollars(text) for text in ("", "$", ".", "0", "-1", "1e9", "five", "1,000")] == [None] * 8
    assert all(suggest_cap(cap, spent) > spent for cap in (0.001, 0.5, 20) for spent in (cap, cap * 1.02, cap * 9))
