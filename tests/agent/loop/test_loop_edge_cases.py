"""Cases that once went wrong, or nearly: compaction, closing in the middle, odd replies, costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from agentcli.agent.configured_hooks import RequireOutput
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Hooks
from agentcli.agent.profile import Bounds, Profile
from agentcli.agent.toolcalls.calls import ABORT_GRACE_SECONDS
from agentcli.core import events as ev
from agentcli.core.aio import CLEANUP_SECONDS, AbortSignal
from agentcli.core.messages import ImageBlock, Json, Message
from agentcli.core.permission import PermissionMode
from agentcli.tools.base import Output, ToolContext
from tests.support.fakes import MODEL, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, call_raw, event, fails, fault, pause, reply, say
from tests.support.tables import each_row
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

SMALL = Profile(model=MODEL, small_model="claude-haiku-5-5", context_window=12_000)
FULL = reply("A long story. " * 60, usage={"input_tokens": 3_600, "output_tokens": 300})
IMAGE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})


@each_row(
    "answer",
    [
        reply("I cannot", stop_reason="refusal"),
        reply("cut summ", stop_reason="max_tokens"),
        reply(say("Let me look"), call("Look")),
        reply(),
        fails(400, "no", "invalid_request_error"),
        reply("even longer than before " * 200),
    ],
)
async def test_an_unusable_summary_changes_nothing(answer: Json) -> None:
    b = bench(reply("Some text. " * 30), {**answer, "repeat": 3}, "Still here.", tools=[FakeTool()])
    async with b.engine:
        await b.run("a question")
        before = b.engine.messages
        events = await collect(b.engine.compact())
        assert b.engine.messages == before
        assert result_of(events).is_error
        assert len(only(events, ev.CompactionFailed)) == 1


async def test_a_truncated_summary_or_one_with_a_tool_call_is_requested_again() -> None:
    cut = reply("cut", stop_reason="max_tokens")
    b = bench(reply("Some text. " * 30), cut, reply(call("Look")), "Short.", tools=[FakeTool()])
    async with b.engine:
        await b.run("a question")
        assert not result_of(await collect(b.engine.compact())).is_error
    caps = [request["max_tokens"] for request in b.requests[1:]]
    assert caps[0] < caps[1] == caps[2]
    assert ["tool_choice" in request for request in b.requests[1:]] == [False, False, True]


async def test_calls_that_the_server_never_closed_all_have_a_result() -> None:
    opened = [
        event({"type": "content_block_start", "index": n, "content_block": {
            "type": "tool_use", "id": f"toolu_{n}", "name": "Look", "input": {}}})
        for n in range(2)
    ]  # fmt: skip
    inputs = [
        event({"type": "content_block_delta", "index": n,
               "delta": {"type": "input_json_delta", "partial_json": '{"what": "x"}'}})
        for n in range(2)
    ]  # fmt: skip
    tool = FakeTool()
    b = bench(reply(*opened, *inputs, stop_reason="tool_use"), "Done.", tools=[tool])
    await b.once()
    assert tool.runs == [{"what": "x"}, {"what": "x"}]
    assert len(b.engine.messages[2].tool_results) == 2


async def test_a_salvaged_reply_withdraws_the_questions_behind_it() -> None:
    change, asked = FakeTool("Change", seconds=9, safe=False), FakeTool("Ask", safe=False, need="write")
    b = bench(
        reply(call("Change"), call("Ask"), pause(10), say("and"), pause(20), fault("drop")), "Done.",
        tools=[change, asked], mode=PermissionMode.DEFAULT, interactive=True,
    )  # fmt: skip
    events = await b.once()
    asked_for = {e.request_id for e in only(events, ev.PermissionRequested)}
    assert asked_for
    assert {e.request_id for e in only(events, ev.PermissionResolved)} == asked_for
    assert result_of(events).text == "Done."


class Tidying(FakeTool):
    """Ignores an abort, and cleans up for `seconds` when it is cancelled."""

    seconds = 10.0

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> AsyncGenerator[Output, None]:
        try:
            await asyncio.sleep(500)
            yield Output("looked")
        finally:
            await asyncio.sleep(self.seconds)
            self.ended.append("cleaned up")


async def leave_after_abort(tool: Tidying, seconds: float) -> float:
    """Abort while the tool runs, and leave so many seconds later. Returns how long leaving took."""
    b = bench(reply(call("Look")), tools=[tool])
    stream = b.engine.submit("go")
    async for happened in stream:
        if isinstance(happened, ev.ToolStarted):
            break
    b.engine.abort()
    await asyncio.sleep(seconds)
    began = asyncio.get_running_loop().time()
    await stream.aclose()
    await b.engine.aclose()
    return asyncio.get_running_loop().time() - began


async def test_cleanup_after_an_abort_is_not_interrupted_when_the_consumer_leaves() -> None:
    tool = Tidying()
    await leave_after_abort(tool, 1)
    assert tool.ended == ["cleaned up"]


@pytest.mark.parametrize(("seconds", "ended"), [(1.5, ["cleaned up"]), (60.0, [])])
async def test_cleanup_that_outlasts_the_grace_period_has_some_seconds_when_the_consumer_leaves(
    seconds: float, ended: list[str]
) -> None:
    tool = Tidying()
    tool.seconds = seconds
    left_in = await leave_after_abort(tool, ABORT_GRACE_SECONDS + 1)
    assert tool.ended == ended
    assert left_in <= CLEANUP_SECONDS


class Slow(Hooks, Attachments):
    def __init__(self, where: str) -> None:
        self.where = where

    async def before_compact(self, trigger: str, focus: str) -> str:
        await asyncio.sleep(500 if self.where == "before_compact" else 0)
        return focus

    async def after_compact(self, trigger: str) -> None:
        await asyncio.sleep(500 if self.where == "after_compact" else 0)

    async def collect(self, state: LoopState) -> Sequence[Message]:
        await asyncio.sleep(500 if self.where == "collect" else 0)
        return ()


@pytest.mark.parametrize("where", ["before_compact", "after_compact", "collect"])
async def test_an_abort_takes_effect_at_once(where: str) -> None:
    slow = Slow(where)
    b = bench(FULL, "A summary.", "x", profile=SMALL, hooks=slow, attachments=slow, tools=[FakeTool()])
    loop = asyncio.get_running_loop()
    async with b.engine:
        if where != "collect":
            await b.run("first")
        began = loop.time()
        loop.call_later(5, b.engine.abort)
        await b.run("y" * 9_000)
        assert loop.time() - began < 6


async def test_every_kind_of_invalid_structured_output_is_counted() -> None:
    tool = FakeTool("StructuredOutput", output=Output("bad", is_error=True))
    replies = [reply(call_raw("StructuredOutput", "{bad")), reply(call("StructuredOutput", odd=1)), "In words."]
    b = bench(
        *replies * 10,
        tools=[tool],
        wants_structured=True,
        hooks=RequireOutput("StructuredOutput"),
    )
    async with b.engine:
        for _prompt in range(2):
            before = len(b.requests)
            assert result_of(await b.run()).subtype == "error_max_structured_output_retries"
            assert len(b.requests) - before == 5, "the count starts anew with each prompt"


async def test_a_refusal_leaves_out_every_prompt_of_the_submission() -> None:
    refusal = reply(stop_reason="refusal")
    b = bench(reply(call("Look")), refusal, "Fine.", tools=[FakeTool(seconds=3)])
    async with b.engine:
        asyncio.get_running_loop().call_later(1, b.engine.enqueue, "and harmless")
        await b.run("something awful")
        broken = only(await b.run("something nice"), ev.PrefixBroken)
    assert [(one.block, one.reason) for one in broken] == [
        ("the message “something awful” in turn 1", "a prompt that was declined is left out")
    ]
    assert "awful" not in str(b.requests[-1])
    assert "harmless" not in str(b.requests[-1])


async def test_a_model_that_answers_under_another_name_is_priced_as_the_one_asked_for() -> None:
    b = bench(reply("Hi.", model=f"gateway/{MODEL}"), bounds=Bounds(max_budget_usd=1))
    assert not result_of(await b.once()).is_error


async def test_an_empty_end_does_not_show_an_earlier_answer() -> None:
    b = bench(reply(say("Let me look."), call("Look")), reply(), reply(), tools=[FakeTool()])
    assert result_of(await b.once()).text == ""


def usage_when_stopped(*steps: Json) -> ev.UsageReported:
    """Of a reply that is stopped a second after its first text."""

    async def main() -> list[ev.Event]:
        b = bench(reply(say("Many words. " * 100), *steps, pause(60), say("The rest.")))
        events: list[ev.Event] = []
        async with b.engine, aclosing(b.engine.submit("Tell me a lot")) as submission:
            async for happened in submission:
                events.append(happened)
                if isinstance(happened, ev.TextStreamed):
                    asyncio.get_running_loop().call_later(1, b.engine.abort)
        return events

    (used,) = only(run_virtual(main), ev.UsageReported)
    assert isinstance(used, ev.UsageReported)
    return used


def test_what_has_come_of_a_stopped_reply_is_counted_by_estimate() -> None:
    """The API says only at the end how much it wrote."""
    used = usage_when_stopped()
    assert used.usage.output_tokens >= 200
    assert used.estimated_tokens == used.usage.output_tokens - 1


def test_a_stopped_reply_counts_as_reported_if_its_usage_has_come() -> None:
    used = usage_when_stopped(event({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 77}}))
    assert used.usage.output_tokens == 77
    assert used.estimated_tokens == 0
