"""The invariants of SPEC 6, with generated scripts, faults, tools, and aborts at any point where anything waits."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.agent.loop_state import EndReason, LoopState
from agentcli.agent.ports import Hooks, HookVerdict
from agentcli.agent.profile import Bounds, Profile, Tuning
from agentcli.agent.toolcalls.calls import BatchExecutor, Executor
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Message, Origin, TextBlock, ThinkingBlock, ToolUseBlock
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.usage import Usage
from agentcli.providers.provider import RetryPolicy
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output
from tests.support.fakes import MODEL, Bench, FakeTool, LoopClock, bench, only, result_of
from tests.support.scripts import call, call_raw, fails, fault, pause, reply, say, think
from tests.support.virtual import VirtualLoop, run_virtual

RETRIES = RetryPolicy(max_retries=2)
TOO_LONG = fails(400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error")

# ------------------------------------------------------------------------------------------------ what may happen

seconds = st.sampled_from([0.0, 0.0, 0.5, 2.0])
texts = st.sampled_from(["Hello.", "x" * 40, "  ", "wörd ✓", "a\nb"])
calls = st.builds(
    lambda name, wait: call(name, seconds=wait), st.sampled_from(["Look", "Change", "Crash", "Ask", "Nope"]), seconds
)
steps = st.one_of(
    texts.map(lambda text: say(text, 3)),
    st.just(think("hm")),
    calls,
    calls,
    st.just(call_raw("Look", '{"what": ')),
    st.just(call_raw("Change", "")),
    seconds.map(pause),
)
faults = st.sampled_from(["drop", "eof", "garbage", "reset", "stall"]).map(fault)
stop_reasons = st.sampled_from(
    [None, None, None, "max_tokens", "pause_turn", "refusal", "model_context_window_exceeded"]
)


def _reply(parts: list[Json], broken: list[Json], stop: str | None, tokens: int) -> Json:
    rest: dict[str, Any] = {"usage": {"input_tokens": 10 * tokens, "output_tokens": tokens}}
    return reply(*parts, *broken, **rest, **({"stop_reason": stop} if stop else {}))


replies = st.builds(
    _reply, st.lists(steps, max_size=5), st.lists(faults, max_size=1), stop_reasons, st.integers(0, 900)
)
errors = st.sampled_from([fails(529), fails(500), fails(400, "bad", "invalid_request_error"), TOO_LONG])
scripts = st.lists(st.one_of(replies, replies, replies, errors), min_size=1, max_size=6)


class SometimesBlocking(Hooks):
    def __init__(self, verdicts: Sequence[bool]) -> None:
        self.verdicts = list(verdicts)
        self.asked = 0

    async def before_stop(self, state: LoopState) -> HookVerdict:
        self.asked += 1
        await asyncio.sleep(0)
        blocks = bool(self.verdicts) and self.verdicts.pop(0)
        return HookVerdict(errors=("Not yet.",)) if blocks else HookVerdict()


@dataclass(frozen=True)
class Setup:
    script: list[Json]
    blocks: list[bool]
    bounds: Bounds
    tuning: Tuning
    answers: list[str]
    window: int | None = None
    """Context window in tokens, if it is so small that conversations are compacted automatically."""

    def tools(self) -> list[FakeTool]:
        return [
            FakeTool("Look", steps=2),
            FakeTool("Change", safe=False),
            FakeTool("Crash", crash=ValueError("boom")),
            FakeTool("Ask", safe=False, need="write"),
        ]

    def bench(self, tools: list[FakeTool], **rest: Any) -> Bench:
        return bench(
            *self.script,
            reply("The end.", repeat=True),
            tools=tools,
            policy=RETRIES,
            mode=PermissionMode.DEFAULT,
            interactive=True,
            tuning=self.tuning,
            profile=Profile(MODEL, MODEL, system=("Be good.",), output_cap=2_000, context_window=self.window),
            **{"bounds": self.bounds, "hooks": SometimesBlocking(self.blocks), **rest},
        )


setups = st.builds(
    Setup,
    scripts,
    st.lists(st.booleans(), max_size=2),
    st.builds(
        Bounds,
        max_turns=st.none() | st.integers(1, 4),
        max_budget_usd=st.none() | st.just(0.01),
        token_target=st.none() | st.just(500),
    ),
    st.builds(
        Tuning,
        executor=st.sampled_from([Executor, BatchExecutor]),
        concurrency=st.sampled_from([1, 2, 10]),
        tool_summaries=st.booleans(),
        reactive_compact=st.booleans(),
    ),
    st.lists(st.sampled_from(["allow", "deny", "never"]), max_size=4),
    st.sampled_from([None, None, 6_000]),
)

# ------------------------------------------------------------------------------------------------ how it is driven


async def submit(b: Bench, setup: Setup, prompt: str, events: list[ev.Event]) -> None:
    """Consume a submission, answering questions as the setup says. A question nobody answers ends by an abort."""
    answers = list(setup.answers)
    async with aclosing(b.engine.submit(prompt)) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                behavior = answers.pop(0) if answers else "allow"
                if behavior == "never":
                    asyncio.get_running_loop().call_later(5, b.engine.abort)
                else:
                    b.engine.answer(event.request_id, Answer(behavior))  # type: ignore[arg-type]


def check_log(messages: Sequence[Message]) -> None:
    """I1 on the log itself: every call has exactly one result, in the next message that is sent."""
    sent = [message for message in messages if not message.origin.local]
    for index, message in enumerate(sent):
        assert message.content, "an empty message is never stored"
        if message.tool_uses:
            following = sent[index + 1]
            assert [r.tool_use_id for r in following.tool_results] == [use.id for use in message.tool_uses]
        elif message.role == "assistant" and index + 1 < len(sent):
            assert not sent[index + 1].tool_results
    ids = [use.id for message in sent if not message.is_copy for use in message.tool_uses]
    assert len(ids) == len(set(ids))
    assert len({message.id for message in messages}) == len(messages)


def check_events(events: Sequence[ev.Event], hooks: SometimesBlocking) -> None:
    result = result_of(events)  # I5
    assert result.terminal in {terminal.value for terminal in EndReason}
    assert len(only(events, ev.LoopEnded)) == 1
    # I3: one compaction per iteration, one reactive compact per submission.
    in_iteration = 0
    for event in events:
        if isinstance(event, ev.LoopContinued):
            in_iteration = 0
        if isinstance(event, ev.CompactionStarted):
            in_iteration += 1
            assert in_iteration <= 1
    assert sum(e.trigger == "reactive" for e in only(events, ev.CompactionStarted)) <= 1
    # I4: each time the hooks are asked there was a reply that could have been the last.
    assert hooks.asked <= len([e for e in only(events, ev.RequestStarted) if e.purpose == "turn"])
    assert result.is_error == (result.subtype != "success")


def check_tools(tools: Sequence[FakeTool]) -> None:
    """I6: whatever began has ended."""
    for tool in tools:
        assert len(tool.ended) == len(tool.runs) or tool.crash is not None


@given(setups)
def test_any_script_ends_in_one_result_and_a_valid_next_request(setup: Setup) -> None:
    async def main() -> None:
        tools = setup.tools()
        hooks = SometimesBlocking(setup.blocks)
        b = setup.bench(tools, hooks=hooks)
        async with b.engine:
            for prompt in ("one", "two"):
                hooks.asked = 0
                before = b.engine.messages
                events: list[ev.Event] = []
                await submit(b, setup, prompt, events)
                check_events(events, hooks)
                assert b.engine.messages[: len(before)] == before  # I2
                check_log(b.engine.messages)
                check_tools(tools)
                assert not b.engine.session.questions._open
            assert b.refused == []  # I7

    run_virtual(main)


@given(setups, st.integers(0, 10**6), st.sampled_from(AbortReason))
def test_an_abort_at_any_point_leaves_a_valid_conversation(setup: Setup, point: int, reason: AbortReason) -> None:
    def steps_of_a_whole_run() -> int:
        async def main() -> int:
            b = setup.bench(setup.tools())
            async with b.engine:
                await submit(b, setup, "one", [])
            return _loop().steps

        return run_virtual(main)

    total = steps_of_a_whole_run()

    async def main() -> None:
        tools = setup.tools()
        b = setup.bench(tools, bounds=replace(setup.bounds, max_budget_usd=None))
        async with b.engine:
            _loop().act_at[_loop().steps + 1 + point % total] = lambda: b.engine.abort(reason)
            events: list[ev.Event] = []
            await submit(b, setup, "one", events)
            result_of(events)
            check_log(b.engine.messages)
            check_tools(tools)
            left_message = any(m.origin is Origin.INTERRUPTION for m in b.engine.messages)
            if reason is AbortReason.INTERRUPT and "never" not in setup.answers:
                assert not left_message  # D4
            after: list[ev.Event] = []
            await submit(b, setup, "two", after)
            result_of(after)
            check_log(b.engine.messages)
            assert b.refused == []

    run_virtual(main)


@given(setups, st.integers(0, 200), st.booleans())
def test_a_consumer_that_leaves_leaves_nothing_running(setup: Setup, after: int, cancelled: bool) -> None:
    """L3: closing the generator, or cancelling the task that reads it, ends the work; the next prompt works, and the
    session file says the same as the log."""

    async def main(folder: Path) -> None:
        tools = setup.tools()
        workplace = SessionContext(folder, Path("/work"), LoopClock(), SequentialIds(), "test")
        store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
        b = setup.bench(tools, store=store)

        async def consume() -> None:
            async with aclosing(b.engine.submit("one")) as stream:
                seen = 0
                async for _event in stream:
                    seen += 1
                    if seen > after:
                        return

        async with b.engine:
            task = asyncio.ensure_future(consume())
            if cancelled:
                asyncio.get_running_loop().call_later(after / 40, task.cancel)
            else:
                asyncio.get_running_loop().call_later(100, task.cancel)
            await asyncio.wait([task])
            assert not b.engine.running
            check_tools(tools)
            check_log(b.engine.messages)
            if b.engine.messages:
                assert load_session(store.path).messages == list(b.engine.messages)  # type: ignore[arg-type]
            events: list[ev.Event] = []
            await submit(b, setup, "two", events)
            result_of(events)
            assert b.refused == []
            assert load_session(store.path).messages == list(b.engine.messages)  # type: ignore[arg-type]

    with tempfile.TemporaryDirectory() as folder:
        run_virtual(lambda: main(Path(folder)))


stopped_reply = Setup(
    [_reply([say("x" * 40, 3), call("Ask")], [fault("stall")], None, 3)], [], Bounds(), Tuning(), ["never"]
)


@given(setups)
@example(stopped_reply)
def test_totals_equal_the_usage_of_all_responses(setup: Setup) -> None:
    """I8, against a tally taken where the responses arrive: what they report, and the estimates for stopped replies."""

    async def main() -> None:
        b = setup.bench(setup.tools(), bounds=replace(setup.bounds, max_budget_usd=None))
        said: list[Usage] = []
        inner = b.transport.events

        async def tallied(body: Json, betas: tuple[str, ...]) -> Any:
            usage = Usage()
            try:
                async for event in inner(body, betas):
                    if event["type"] == "message_start":
                        usage = usage.updated(event["message"]["usage"])
                    elif event["type"] == "message_delta":
                        usage = usage.updated(event.get("usage"))
                    yield event
            finally:
                said.append(usage)

        b.transport.events = tallied  # type: ignore[method-assign]
        async with b.engine:
            events: list[ev.Event] = []
            await submit(b, setup, "one", events)
        reported = only(events, ev.UsageReported)
        estimated = sum(e.estimated_tokens for e in reported)
        if "never" not in setup.answers:
            assert not estimated, "nothing was stopped"
        total = sum(said, Usage()) + Usage(output_tokens=estimated)
        assert b.engine.costs.totals.usage == total
        assert result_of(events).usage == total
        assert sum((e.usage for e in reported), Usage()) == total

    run_virtual(main)


@given(setups, st.integers(0, 10**6))
def test_a_crash_at_any_point_loses_nothing_that_was_shown_as_done(setup: Setup, point: int) -> None:
    """The session file as it is at any moment loads to a valid conversation that has all a consumer has seen, but for
    what waits for the next request: the end of the last reply, its calls, and results of calls that change nothing."""

    async def main(folder: Path) -> None:
        clock = LoopClock()
        workplace = SessionContext(folder, Path("/work"), clock, SequentialIds(), "test")
        store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
        b = setup.bench(setup.tools(), store=store)
        taken: list[tuple[bytes, list[ev.Event]]] = []
        events: list[ev.Event] = []

        def snapshot() -> None:
            if store.path is not None and store.path.exists():
                taken.append((store.path.read_bytes(), list(events)))

        async with b.engine:
            _loop().act_at[_loop().steps + 1 + point % 80] = snapshot
            await submit(b, setup, "one", events)
            snapshot()
            assert load_session(store.path).messages == list(b.engine.messages)  # type: ignore[arg-type]
        for content, seen in taken:
            copy = folder / f"{workplace.ids.new()}.jsonl"
            copy.write_bytes(content)
            loaded = load_session(copy)
            check_log(loaded.messages)
            resumed = bench("Resumed.", tools=setup.tools(), log=tuple(loaded.messages))
            async with resumed.engine:
                assert result_of(await resumed.run("go on")).text == "Resumed."
            check_nothing_lost([event for place, event in enumerate(seen) if not waits(seen, place)], loaded.messages)

    with tempfile.TemporaryDirectory() as folder:
        run_virtual(lambda: main(Path(folder)))


def waits(seen: Sequence[ev.Event], place: int) -> bool:
    """Whether the record of an event may wait for a request that, as far as was seen, is not answered yet."""
    event = seen[place]
    if any(isinstance(later, ev.ReplyStarted | ev.Result) for later in seen[place + 1 :]):
        return False
    if isinstance(event, ev.MessageAppended):
        return event.message.origin in (Origin.REPLY, Origin.TOOL_RESULTS)
    if isinstance(event, ev.ToolFinished):
        whole = any(isinstance(one, ev.MessageAppended) and one.message.tool_uses for one in seen[:place])
        return whole and event.name not in ("Change", "Ask")
    return isinstance(event, ev.BlockFinished) and isinstance(event.block, ToolUseBlock)


def check_nothing_lost(seen: Sequence[ev.Event], loaded: Sequence[Message]) -> None:
    void = {e.message_id for e in only(seen, ev.ReplyTombstoned)}
    shown = [e for e in only(seen, ev.BlockFinished) if e.message_id not in void]
    calls = {use.id for message in loaded for use in message.tool_uses}
    results = {r.tool_use_id: r for message in loaded for r in message.tool_results}
    kept_messages = {message.id for message in loaded}
    for event in only(seen, ev.MessageAppended):
        assert event.message.id in kept_messages
    voided_calls = {e.block.id for e in only(seen, ev.BlockFinished) if isinstance(e.block, ToolUseBlock)} - {
        e.block.id for e in shown if isinstance(e.block, ToolUseBlock)
    }
    for event in only(seen, ev.ToolFinished):
        if event.tool_use_id in calls and event.tool_use_id not in voided_calls:
            assert results[event.tool_use_id] == event.result


# ------------------------------------------------------------------------------------------------------------- I9

plain_steps = st.one_of(
    st.sampled_from(["Hello.", "wörd ✓"]).map(say),
    st.just(think("hm")),
    st.builds(lambda name, n: call(name, what=str(n)), st.sampled_from(["Look", "Change"]), st.integers(0, 9)),
)
plain_scripts = st.lists(st.lists(plain_steps, min_size=1, max_size=4).map(lambda s: reply(*s, "Text.")), max_size=4)


def replies_of(log: Sequence[Message]) -> list[Json]:
    def step(block: Any) -> Json:
        match block:
            case TextBlock():
                return say(block.text)
            case ThinkingBlock():
                return think(block.thinking, block.signature)
            case ToolUseBlock():
                return {"tool": block.name, "input": block.input, "id": block.id}
        raise AssertionError(block)

    return [
        reply(*map(step, m.content), stop_reason=m.stop_reason, usage=m.usage.to_wire() if m.usage else None)
        for m in log
        if m.origin is Origin.REPLY
    ]


@given(plain_scripts, st.sampled_from([Executor, BatchExecutor]))
def test_replaying_replies_and_results_yields_the_same_log(script: list[Json], executor: Any) -> None:
    """I9: the log is a function of the model's replies and the tool results."""

    async def main() -> None:
        counter = iter(range(1000))
        live = [
            FakeTool("Look", seconds=1, output=lambda given: Output(f"saw {given} {next(counter)}")),
            FakeTool("Change", safe=False, output=lambda given: Output(f"did {given} {next(counter)}")),
        ]
        first = bench(*script, "End.", tools=live, tuning=Tuning(executor=executor))
        async with first.engine:
            await first.run("one")
        log = first.engine.messages
        results = iter([r for m in log for r in m.tool_results])
        recorded = [FakeTool(tool.name, safe=False, output=lambda _input: Output(next(results).text)) for tool in live]
        second = bench(*replies_of(log), tools=recorded, tuning=Tuning(executor=executor))
        async with second.engine:
            await second.run("one")

        def told(messages: Sequence[Message]) -> list[Any]:
            return [(m.role, m.content, m.origin, m.model, m.stop_reason, m.usage) for m in messages]

        assert told(second.engine.messages) == told(log)

    run_virtual(main)


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
