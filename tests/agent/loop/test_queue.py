"""Nothing typed is ever lost: a prompt is in the queue or in the log, wherever the work ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Attachments, Hooks, HookVerdict
from agentcli.agent.profile import Bounds
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import Message, Origin, user_message
from tests.support.fakes import Bench, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, pause, reply
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


class SlowAttachments(Attachments):
    """An await point between taking a prompt in and the next request."""

    waits = True

    def __init__(self) -> None:
        self.count = 0

    async def collect(self, state: LoopState) -> Sequence[Message]:
        await asyncio.sleep(1)
        self.count += 1
        return [user_message(f"[Attached {self.count}]", f"attached-{self.count}", Origin.ATTACHMENT)]


class OneBlock(Hooks):
    def __init__(self) -> None:
        self.blocks = 1

    async def before_prompt(self, text: str) -> HookVerdict:
        await asyncio.sleep(1)
        return HookVerdict(context=("Told by a hook.",))

    async def before_stop(self, state: LoopState) -> HookVerdict:
        await asyncio.sleep(1)
        self.blocks -= 1
        return HookVerdict(errors=("Once more.",) if self.blocks >= 0 else ())


def working() -> Bench:
    replies = (reply(pause(1), call("Look")), reply(call("Look")), "Done?", "Done.", reply("Next.", repeat=True))
    return bench(*replies, tools=[FakeTool(seconds=2)], hooks=OneBlock(), attachments=SlowAttachments())


STEPS = st.tuples(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["now", "next", "later"])), max_size=4),
    st.one_of(st.none(), st.integers(0, 60)),
    st.sampled_from(["leave", *AbortReason]),
    st.integers(0, 24),
)


@given(STEPS)
def test_every_prompt_is_in_the_log_or_in_the_queue_wherever_the_work_ends(steps: Any) -> None:
    """Ends at the n-th event, by an abort or by a consumer that leaves; or in the middle of an await, after so many
    half seconds."""
    typed, end_at, how, half_seconds = steps

    async def main() -> None:
        b = working()
        sent = ["the prompt"]

        async def consume() -> None:
            number = 0
            async with aclosing(b.engine.submit("the prompt")) as stream:
                async for _event in stream:
                    for priority in (priority for at, priority in typed if at == number):
                        sent.append(f"typed {len(sent)}")
                        b.engine.enqueue(sent[-1], priority)
                    if number == end_at and how == "leave":
                        return
                    if number == end_at:
                        b.engine.abort(how)
                    number += 1

        async with b.engine:
            loop = asyncio.get_running_loop()
            consumer = loop.create_task(consume())
            await asyncio.sleep(0)
            if end_at is None:
                await asyncio.wait([consumer], timeout=half_seconds / 2)
                if how == "leave":
                    consumer.cancel()
                else:
                    b.engine.abort(how)
            await asyncio.wait([consumer])
            logged = [m.text for m in b.engine.messages if m.origin in (Origin.PROMPT, Origin.QUEUED)]
            waiting = [prompt.text for prompt in b.engine.queue.take()]
            assert sorted(logged + waiting) == sorted(sent)
            assert result_of(await collect(b.engine.submit("and then?"))).text in ("Done?", "Done.", "Next.")
        assert b.refused == []

    run_virtual(main)


async def test_a_prompt_withdrawn_while_others_are_logged_is_not_sent() -> None:
    b = working()
    async with b.engine:
        b.engine.enqueue("first")
        other = b.engine.enqueue("another prompt")
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.MessageAppended) and event.message.text == "first":
                assert b.engine.queue.remove(other) is not None
        assert "another prompt" not in str(b.requests)


@pytest.mark.parametrize("way", ["stop_hook_blocking", "token_budget_continuation"])
async def test_queued_prompts_join_where_the_loop_continues_without_tool_results(way: str) -> None:
    usage = {"input_tokens": 10, "output_tokens": 600}
    blocking = way == "stop_hook_blocking"
    b = bench(
        reply(pause(2), "Done.", usage=usage),
        reply("Both done.", usage=usage),
        hooks=OneBlock() if blocking else Hooks(),
        bounds=Bounds(token_target=None if blocking else 1_200),
    )
    async with b.engine:
        asyncio.get_running_loop().call_later(1.5, b.engine.enqueue, "also this")
        events = await b.run()
        assert b.engine.queue.take() == ()
    assert [event.transition for event in only(events, ev.LoopContinued)] == [way]
    assert "also this" in str(b.requests[1]["messages"][-1])


async def joined(priority: str, *replies: Any) -> list[str]:
    """Queue a prompt with this priority when the first tool starts. Returns the user's prompts, calls and replies in
    the order of the log, then what is still queued."""
    b = bench(*replies, tools=[FakeTool()])
    async with b.engine:
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.ToolStarted) and len(b.requests) == 1:
                b.engine.enqueue(f"typed {priority}", priority)  # type: ignore[arg-type]
        wanted = (Origin.PROMPT, Origin.QUEUED, Origin.REPLY)
        order = [message.text or "call" for message in b.engine.messages if message.origin in wanted]
        waiting = [f"waiting: {prompt.text}" for prompt in b.engine.queue.take()]
    return order + waiting


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        ("now", ["go", "call", "typed now", "call", "Done."]),
        ("next", ["go", "call", "typed next", "call", "Done."]),
        ("later", ["go", "call", "call", "Done.", "typed later", "And later."]),
    ],
)
async def test_a_prompt_joins_the_work_as_its_priority_says(priority: str, expected: list[str]) -> None:
    look = reply(call("Look"))
    order = await joined(priority, look, look, "Done.", "And later.")
    assert order == expected


async def test_at_the_end_all_queued_prompts_join_in_the_order_of_their_priorities() -> None:
    b = bench("Done.", "All done.")
    async with b.engine:
        for priority in ("later", "next", "now"):
            b.engine.enqueue(priority, priority)  # type: ignore[arg-type]
        events = await b.run("go")
        assert result_of(events).text == "All done."
        assert [m.text for m in b.engine.messages if m.origin is Origin.QUEUED] == ["now", "next", "later"]


async def test_a_later_prompt_stays_queued_at_the_turn_limit_and_when_a_hook_blocks_it_the_work_ends() -> None:
    class Blocks(Hooks):
        async def before_prompt(self, text: str) -> HookVerdict:
            return HookVerdict(stop="Not now." if text == "typed" else None)

    limited: Any = {"bounds": Bounds(max_turns=1)}
    blocked: Any = {"hooks": Blocks()}
    for rest, left in ((limited, ["typed"]), (blocked, [])):
        b = bench("Done.", **rest)
        async with b.engine:
            b.engine.enqueue("typed", "later")
            assert result_of(await b.run("go")).text == "Done."
            assert [prompt.text for prompt in b.engine.queue.take()] == left
