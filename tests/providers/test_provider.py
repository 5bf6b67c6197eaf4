"""Requests with their retries, limits and fallbacks, stopped at every point."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.aio import AbortController
from agentcli.core.messages import Json, TextBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.providers.base import (
    Closed,
    Delta,
    Dropped,
    Failed,
    Failure,
    FailureKind,
    FellBack,
    Finished,
    ModelEvent,
    Opened,
    Quiet,
    Raw,
    Request,
    Started,
    Thinking,
    Waiting,
)
from agentcli.providers.failures import retry_after_seconds
from agentcli.providers.provider import RetryPolicy
from tests.support.scripts import (
    call,
    call_raw,
    call_with_id,
    event,
    fails,
    fault,
    pause,
    provider_for,
    provider_on,
    reply,
    say,
    transport_for,
)
from tests.support.tables import each_row
from tests.support.virtual import run_virtual

USER = {"role": "user", "content": [{"type": "text", "text": "hello"}]}


def ask(**rest: Any) -> Request:
    return Request(**{"model": "claude-opus-5-5", "messages": (USER,), **rest})


def play(provider: Any, request: Request | None = None) -> list[ModelEvent]:
    async def main() -> list[ModelEvent]:
        return [item async for item in provider.stream(request or ask(), AbortController().signal)]

    return run_virtual(main)


def ended(events: list[ModelEvent]) -> Failure:
    """The failure that a stream ends with."""
    last = events[-1]
    assert isinstance(last, Failed)
    return last.failure


def kinds(events: list[ModelEvent]) -> list[str]:
    return [type(item).__name__ for item in events]


def test_a_text_reply_comes_as_started_opened_deltas_closed_finished() -> None:
    assert play(provider_for(reply(say("hello you", chunk=6)))) == [
        Started("msg_000001", "claude-opus-5-5", Usage(10, 1)),
        Opened(0, "text"),
        Delta(0, "text", "hello "),
        Delta(0, "text", "you"),
        Closed(0, TextBlock("hello you")),
        Finished("end_turn", Usage(10, 5)),
    ]


def test_input_that_is_no_json_object_is_kept_as_text() -> None:
    closed = [
        item
        for item in play(provider_for(reply(call_raw("Read", '{"a": '), call_raw("Read", "[1]"), call_raw("Read", ""))))
        if isinstance(item, Closed)
    ]
    blocks = [item.block for item in closed]
    assert [getattr(block, "invalid_json", "") for block in blocks] == ['{"a": ', "[1]", None]
    assert [item.cut for item in closed] == [False, False, True]


def test_duplicate_tool_ids_get_a_fresh_one_within_the_reply_and_against_the_conversation() -> None:
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]}
    provider = provider_for(reply(call_with_id("t1", "Read"), call_with_id("t2", "Read"), call_with_id("t2", "Read")))
    events = play(provider, ask(messages=(USER, used, result)))
    ids = [item.block.id for item in events if isinstance(item, Closed) and isinstance(item.block, ToolUseBlock)]
    assert ids == ["toolu_00000000000040008000000000000001", "t2", "toolu_00000000000040008000000000000002"]


def test_raw_events_precede_parsed_ones_when_requested() -> None:
    events = play(provider_for("hi"), ask(raw_events=True))
    assert kinds(events)[:2] == ["Raw", "Started"]
    assert [item.data["type"] for item in events if isinstance(item, Raw)][-1] == "message_stop"


def test_overloads_that_are_not_in_a_row_bring_no_fallback() -> None:
    events = play(provider_for(fails(529), fails(529), fails(500), fails(529), "hi"), ask(fallback_models=("sonnet",)))
    assert "FellBack" not in kinds(events)


def test_a_drop_in_the_middle_is_retried_on_the_fallback_model() -> None:
    transport = transport_for(reply("half", fault("drop")), "whole")
    events = play(provider_on(transport), ask(fallback_models=("haiku",)))
    assert "Waiting" not in kinds(events)
    assert [body["model"] for body in transport.requests] == ["claude-opus-5-5", "claude-haiku-5-5"]


def test_retries_end_after_ten_with_a_message() -> None:
    transport = transport_for(fails(500, repeat=True))
    events = play(provider_on(transport))
    assert len(transport.requests) == 11
    waits = [item.seconds for item in events if isinstance(item, Waiting)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 32, 32, 32]
    assert ended(events).retryable
    assert "10 times" in ended(events).message


def test_silence_is_reported_at_30_seconds_and_ends_an_attempt_at_90_at_most_three_times() -> None:
    transport = transport_for(reply("a", fault("stall"), repeat=True))
    events = play(provider_on(transport))
    assert len(transport.requests) == 4
    assert kinds(events).count("Quiet") == 4
    assert Quiet(30.0) in events
    assert kinds(events)[-2:] == ["Broken", "Failed"]
    assert ended(events).kind is FailureKind.TIMEOUT


def test_idle_timeout_restarts_after_each_chunk() -> None:
    steps = [step for _ in range(5) for step in (pause(80), event({"type": "ping"}))]
    events = play(provider_for(reply(*steps, "done")))
    assert kinds(events).count("Quiet") == 5
    assert isinstance(events[-1], Finished)


def test_endless_pings_end_at_the_overall_deadline_without_a_retry() -> None:
    transport = transport_for(reply(fault("pings")))
    events = play(provider_on(transport))
    assert kinds(events) == ["Started", "Broken", "Failed"]
    assert "10 min" in ended(events).message
    assert len(transport.requests) == 1


def test_a_slow_consumer_is_not_mistaken_for_a_silent_server() -> None:
    async def main() -> list[ModelEvent]:
        seen = []
        async for item in provider_for(reply(say("x" * 2000, chunk=1))).stream(ask(), AbortController().signal):
            seen.append(item)
            await asyncio.sleep(5)
        return seen

    events = run_virtual(main)
    assert isinstance(events[-1], Finished)
    assert "Quiet" not in kinds(events)


def test_an_abort_ends_a_wait_at_once() -> None:
    async def main() -> tuple[list[ModelEvent], float]:
        controller = AbortController()
        seen = []
        loop = asyncio.get_running_loop()
        async for item in provider_for(fails(429, headers={"retry-after": "50"})).stream(ask(), controller.signal):
            seen.append(item)
            if isinstance(item, Waiting):
                loop.call_later(1, controller.abort)
        return seen, loop.time()

    events, now = run_virtual(main)
    assert kinds(events) == ["Waiting", "Failed"]
    assert now == 1.0


def test_an_abort_before_the_request_sends_none() -> None:
    transport = transport_for("x")

    async def main() -> list[ModelEvent]:
        controller = AbortController()
        controller.abort()
        return [item async for item in provider_on(transport).stream(ask(), controller.signal)]

    assert kinds(run_virtual(main)) == ["Failed"]
    assert transport.requests == []


def test_parameters_the_endpoint_refuses_are_dropped_one_at_a_time_and_remembered() -> None:
    transport = transport_for(
        fails(400, "output_config.effort: Extra inputs are not permitted"),
        fails(400, "thinking: Extra inputs are not permitted"),
        fails(422, "messages.0.content.0.cache_control: Extra inputs are not permitted"),
        "hi",
        "again",
    )
    provider = provider_on(transport)
    events = play(provider, ask(effort="high", system=("You.",)))
    assert [item.feature for item in events if isinstance(item, Dropped)] == ["effort", "thinking", "cache_control"]
    assert isinstance(events[-1], Finished)
    assert set(transport.requests[3]) == {"model", "system", "messages", "max_tokens", "stream"}
    assert "Dropped" not in kinds(play(provider, ask(effort="high")))
    assert "thinking" not in transport.requests[4]


@pytest.mark.parametrize(
    "refusal",
    [
        fails(400, "speed: Extra inputs are not permitted"),
        fails(400, "`speed` requires the anthropic-beta header fast-mode-2026-02-01"),
        fails(403, "Fast mode is not enabled for your organization.", "permission_error"),
    ],
)
def test_refused_fast_mode_is_left_out_with_one_notice(refusal: Json) -> None:
    transport = transport_for(refusal, "hi", "again")
    provider = provider_on(transport)
    asked = ask(model="claude-opus-5-5", fast=True, task_budget_total=50_000)
    events = play(provider, asked)
    [dropped] = [item for item in events if isinstance(item, Dropped)]
    assert (dropped.feature, dropped.model, dropped.requested) == ("fast mode", "claude-opus-5-5", True)
    assert kinds(play(provider, asked)).count("Dropped") == 0
    assert ["speed" in body for body in transport.requests] == [True, False, False]
    assert "task_budget" in transport.requests[2]["output_config"]


def test_another_permission_error_is_no_refusal_of_fast_mode() -> None:
    refusal = fails(403, "Your key has no access.", "permission_error")
    assert kinds(play(provider_for(refusal), ask(model="claude-opus-5-5", fast=True))) == ["Failed"]


@pytest.mark.parametrize(("reported", "fast"), [({}, True), ({"speed": "fast"}, True), ({"speed": "standard"}, False)])
def test_the_usage_has_the_speed_that_the_server_reports_or_else_the_requested_one(reported: Json, fast: bool) -> None:
    transport = transport_for(reply("hi", usage=reported), reply("hi", usage=reported))
    provider = provider_on(transport)
    [finished] = [e for e in play(provider, ask(model="claude-opus-5-5", fast=True)) if isinstance(e, Finished)]
    assert finished.usage.fast is fast
    [usual] = [e for e in play(provider, ask(model="claude-opus-5-5")) if isinstance(e, Finished)]
    assert usual.usage.fast is (reported.get("speed") == "fast")


def test_a_refusal_that_persists_after_dropping_a_parameter_fails() -> None:
    transport = transport_for(fails(400, "thinking is not supported", repeat=True))
    events = play(provider_on(transport))
    assert kinds(events) == ["Dropped", "Failed"]
    assert len(transport.requests) == 2


def test_a_lower_output_cap_is_learned_from_the_refusal() -> None:
    transport = transport_for(
        fails(400, "max_tokens: 64000 > 4096, which is the maximum allowed number of output tokens"), "x"
    )
    events = play(provider_on(transport), ask(max_tokens=64000))
    assert kinds(events)[0] == "Dropped"
    assert transport.requests[1]["max_tokens"] == 4096


def test_errors_that_the_loop_repairs_are_named_and_not_retried() -> None:
    said = {
        "prompt is too long: 210000 tokens > 200000 maximum": FailureKind.PROMPT_TOO_LONG,
        "messages.1: `tool_use` ids were found without `tool_result` blocks after: t1.": FailureKind.PAIRING,
        "messages.1.content.0: Invalid `signature` in `thinking` block": FailureKind.THINKING_REFUSED,
        "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum": FailureKind.IMAGE,
        "Your credit balance is too low to access the API.": FailureKind.BILLING,
        "messages: at least one message is required": FailureKind.INVALID_REQUEST,
    }
    for message, kind in said.items():
        events = play(provider_for(fails(400, message)), ask(thinking=Thinking("disabled")))
        assert kinds(events) == ["Failed"], message
        assert ended(events).kind is kind


def test_control_characters_in_a_server_message_are_replaced() -> None:
    events = play(provider_for(fails(400, "bad\x1b[2J\u202e thing")), ask(thinking=Thinking("disabled")))
    assert ended(events).message.startswith("The API refused the request (400). bad\ufffd[2J\ufffd thing.")


@pytest.mark.parametrize(
    ("failing", "attempts", "said"),
    [
        (fails(503, repeat=3), 3, "The server failed (503). (request id req_scripted)"),
        (fails(429, repeat=3), 3, "The API's rate limit is reached (429)."),
        (fails(429, headers={"retry-after": "3600"}), 1, "The API's rate limit is reached (429)."),
    ],
)
def test_the_fallback_model_answers_once_the_retries_of_the_first_are_used_up(
    failing: Any, attempts: int, said: str
) -> None:
    transport = transport_for(failing, "hi", "again")
    provider = provider_on(transport, RetryPolicy(max_retries=2))
    events = play(provider, ask(fallback_models=("sonnet",)))
    assert [item for item in events if isinstance(item, FellBack)] == [
        FellBack("claude-opus-5-5", "claude-sonnet-5-5", said)
    ]
    assert kinds(events)[-1] == "Finished"
    assert [body["model"] for body in transport.requests] == ["claude-opus-5-5"] * attempts + ["claude-sonnet-5-5"]


def test_a_lost_connection_is_not_tried_again_on_the_fallback_model() -> None:
    transport = transport_for(reply(fault("reset"), repeat=3), "never")
    events = play(provider_on(transport, RetryPolicy(max_retries=2)), ask(fallback_models=("sonnet",)))
    assert kinds(events) == ["Waiting", "Waiting", "Failed"]


OVER_CONTEXT = (
    "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length or "
    "`max_tokens` and try again"
)


@pytest.mark.parametrize(
    "said",
    [
        OVER_CONTEXT,
        "This model's maximum context length is 200000 tokens and your request has 190000 input tokens.",
        "This model's maximum context length is 200000 tokens. You requested 211333 tokens (190000 in the messages).",
    ],
)
def test_output_that_does_not_fit_beside_the_input_is_lowered_for_this_request(said: str) -> None:
    transport = transport_for(fails(400, said), "hi", "later")
    provider = provider_on(transport)
    assert kinds(play(provider, ask(max_tokens=21_333)))[:2] == ["Dropped", "Started"]
    play(provider, ask(max_tokens=21_333))
    assert [body["max_tokens"] for body in transport.requests] == [21_333, 10_000, 21_333]


@pytest.mark.parametrize("input", [199_500, 200_000, 250_000])
def test_input_that_leaves_hardly_any_room_is_too_long(input: int) -> None:
    events = play(provider_for(fails(400, OVER_CONTEXT.replace("190000", str(input)))), ask(max_tokens=21_333))
    assert (len(events), ended(events).kind) == (1, FailureKind.PROMPT_TOO_LONG)


def test_an_endpoint_that_also_refuses_the_lowered_output_is_given_up() -> None:
    transport = transport_for(fails(400, OVER_CONTEXT, repeat=True))
    assert kinds(play(provider_on(transport), ask(max_tokens=21_333))) == ["Dropped", "Failed"]


REQUEST = Request("claude-opus-5-5", ({"role": "user", "content": "hi"},), fallback_models=("haiku",))
STORY = (
    fails(529),
    reply("half", fault("drop")),
    fails(400, "thinking: Extra inputs are not permitted"),
    reply(pause(40), say("whole", chunk=2), event({"type": "ping"}), call("Read", file_path="x")),
)


def _whole() -> int:
    async def main() -> int:
        return len([item async for item in provider_for(*STORY).stream(REQUEST, AbortController().signal)])

    return run_virtual(main)


@each_row("turns", range(60))
def test_an_abort_after_any_number_of_loop_turns_ends_the_stream_once(turns: int) -> None:
    async def main() -> list[ModelEvent]:
        controller = AbortController()

        async def abort_later() -> None:
            for _turn in range(turns):
                await asyncio.sleep(0)
            controller.abort()

        later = asyncio.create_task(abort_later())
        seen = [item async for item in provider_for(*STORY).stream(REQUEST, controller.signal)]
        await later
        return seen

    events = run_virtual(main)
    ends = [item for item in events if isinstance(item, Finished | Failed)]
    assert ends == [events[-1]]
    if isinstance(events[-1], Failed):
        assert events[-1].failure.kind is FailureKind.ABORTED


def test_closing_after_any_event_leaves_nothing_behind() -> None:
    async def main(stop: int) -> None:
        async with aclosing(provider_for(*STORY).stream(REQUEST, AbortController().signal)) as events:
            for _number in range(stop):
                await anext(events)

    for stop in range(_whole() + 1):
        run_virtual(main(stop))


@each_row("turns", range(0, 60, 3))
async def test_cancelling_the_consumer_at_any_point_leaves_nothing_behind(turns: int) -> None:
    async def consume() -> None:
        async with aclosing(provider_for(*STORY).stream(REQUEST, AbortController().signal)) as events:
            async for _item in events:
                await asyncio.sleep(0)

    task = asyncio.create_task(consume())
    for _turn in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.done()


NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 100), chances)
def test_backoff_is_spread_by_a_quarter_at_most(retry: int, chance: float) -> None:
    middle = RetryPolicy().backoff(retry, 0.5)
    assert 0.75 * middle <= RetryPolicy().backoff(retry, chance) <= 1.25 * middle


@given(st.floats(0.001, 60), chances)
def test_a_wait_is_never_shorter_than_the_server_requests(asked: float, chance: float) -> None:
    wait = RetryPolicy().wait(1, asked, chance)
    assert wait is not None
    assert asked <= wait <= asked + 1


@each_row(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT", "date": "Mon, 16 Nov 2026 12:00:10 GMT"}, 20),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, NOW) == seconds


def test_an_overloaded_model_has_a_cooldown_after_a_fallback() -> None:
    async def main() -> list[list[str]]:
        seen = []
        for wait in (0, 100, 300):
            await asyncio.sleep(wait)
            stream = provider.stream(ask(fallback_models=("haiku",)), AbortController().signal)
            events = [type(event).__name__ async for event in stream]
            seen.append([kind for kind in events if kind in ("Waiting", "FellBack")])
        return seen

    transport = transport_for(fails(529, repeat=3), "a", "b", "back")
    provider = provider_on(transport)
    assert run_virtual(main) == [["Waiting", "Waiting", "FellBack"], [], []]
    models = [body["model"] for body in transport.requests]
    assert models == ["claude-opus-5-5"] * 3 + ["claude-haiku-5-5"] * 2 + ["claude-opus-5-5"]
