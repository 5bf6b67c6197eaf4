"""The invariants of SPEC 6 with sub-agents: generated work, and aborts at any point where anything waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.agent.profile import Tuning
from agentcli.agent.toolcalls.calls import BatchExecutor, Executor
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from tests.agent.loop.test_properties import RETRIES, _loop, check_log, check_tools
from tests.support.fakes import Bench, FakeTool, only, result_of
from tests.support.scripts import call, fails, fault, pause, reply, say
from tests.support.subagents import WORKER, Children, agent_bench, task
from tests.support.virtual import run_virtual

seconds = st.sampled_from([0.0, 0.5, 2.0])
tasks = st.builds(lambda background: task(run_in_background=background), st.booleans())
steps = st.one_of(
    st.sampled_from(["Hello.", "wörd ✓"]).map(lambda text: say(text, 3)),
    st.builds(lambda name, wait: call(name, seconds=wait), st.sampled_from(["Look", "Change", "Ask"]), seconds),
    seconds.map(pause),
    tasks,
)
endings = st.lists(st.sampled_from([fault("drop"), fault("eof")]), max_size=1)
replies = st.builds(lambda parts, broken: reply(*parts, *broken), st.lists(steps, max_size=4), endings)
of_agents = st.one_of(replies, replies, st.just(fails(400, "bad", "invalid_request_error")))


@dataclass(frozen=True)
class Setup:
    main: list[Json]
    agents: list[Json]
    answers: list[str]
    executor: type[Executor]
    most: int

    def bench(self, tools: list[FakeTool]) -> tuple[Bench, Children]:
        first = reply(task(), task(), task(run_in_background=True))
        children = [{**one, "match": WORKER} for one in self.agents]
        return agent_bench(
            *children,
            reply("Report.", match=WORKER, repeat=True),
            first,
            *self.main,
            reply("The end.", repeat=True),
            tools=tools,
            policy=RETRIES,
            mode=PermissionMode.DEFAULT,
            interactive=True,
            tuning=Tuning(executor=self.executor),
            most=self.most,
        )


setups = st.builds(
    Setup,
    st.lists(replies, max_size=2),
    st.lists(of_agents, max_size=5),
    st.lists(st.sampled_from(["allow", "deny", "interrupt"]), max_size=3),
    st.sampled_from([Executor, BatchExecutor]),
    st.sampled_from([1, 2, 10]),
)


def tools() -> list[FakeTool]:
    return [FakeTool("Look", steps=2), FakeTool("Change", safe=False), FakeTool("Ask", safe=False, need="write")]


async def follow(b: Bench, setup: Setup, events: list[ev.Event]) -> None:
    answers = list(setup.answers)
    async with aclosing(b.engine.submit("go")) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                said = answers.pop(0) if answers else "allow"
                stops = said == "interrupt"
                b.engine.answer(event.request_id, Answer("allow" if said == "allow" else "deny", interrupt=stops))


async def settle(b: Bench) -> None:
    """Let background agents come to their end, answering what they ask."""
    async with asyncio.timeout(1_000):
        while b.engine.agents.running:
            for event in await b.engine.background.wait_for_changes():
                if isinstance(event, ev.PermissionRequested):
                    b.engine.answer(event.request_id, Answer("allow"))


def check_frames(events: Sequence[ev.Event], *, whole: bool) -> None:
    """Each agent's events lie between its start and its end."""
    open_agents: set[str] = set()
    for event in events:
        if isinstance(event, ev.AgentStarted):
            assert event.parent == "" or event.parent in open_agents
            open_agents.add(event.agent)
        elif event.agent:
            assert event.agent in open_agents
        if isinstance(event, ev.AgentFinished):
            open_agents.discard(event.agent)
    background = {one.agent for one in only(events, ev.AgentStarted) if one.background}
    nested = {one.agent for one in only(events, ev.AgentStarted) if one.parent in background}
    assert not whole or open_agents <= background | nested


def check_children(children: Children) -> None:
    assert len(children.logs) == len(children.built)
    for log in children.logs:
        check_log(log)


@given(setups, st.integers(0, 10**6), st.sampled_from([None, *AbortReason]))
def test_an_abort_at_any_point_leaves_valid_conversations_and_nothing_running(
    setup: Setup, point: int, reason: AbortReason | None
) -> None:
    async def counted() -> int:
        b, _children = setup.bench(tools())
        async with b.engine:
            await follow(b, setup, [])
        return _loop().steps

    total = run_virtual(counted)

    async def main() -> None:
        own = tools()
        b, children = setup.bench(own)
        async with b.engine:
            if reason is not None:
                _loop().act_at[_loop().steps + 1 + point % total] = lambda: b.engine.abort(reason)
            events: list[ev.Event] = []
            await follow(b, setup, events)
            result_of(events)  # I5
            check_frames(events, whole=True)
            check_log(b.engine.messages)  # I1
            after: list[ev.Event] = []
            await follow(b, setup, after)
            result_of(after)
            check_log(b.engine.messages)
            await settle(b)
            assert not b.engine.session.questions._open
            assert b.engine.session.agents._group.slots._value == setup.most
        check_tools(own)  # I6
        check_children(children)
        assert b.refused == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main)


@given(setups, st.integers(0, 300), st.booleans())
@example(Setup([], [], [], Executor, 10), 54, False)  # leaves while the call of an ended agent cleans up
def test_a_consumer_that_goes_away_ends_all_agents(setup: Setup, after: int, cancelled: bool) -> None:
    async def main() -> None:
        own = tools()
        b, children = setup.bench(own)

        async def consume() -> None:
            async with aclosing(b.engine.submit("one")) as stream:
                seen = 0
                async for event in stream:
                    if isinstance(event, ev.PermissionRequested):
                        b.engine.answer(event.request_id, Answer("allow"))
                    seen += 1
                    if seen > after:
                        return

        async with b.engine:
            reading = asyncio.ensure_future(consume())
            asyncio.get_running_loop().call_later(after / 60 if cancelled else 100, reading.cancel)
            await asyncio.wait([reading])
            assert not b.engine.running
            check_log(b.engine.messages)
            assert all(run.task.background for run in b.engine.agents.running)
            events: list[ev.Event] = []
            await follow(b, setup, events)
            result_of(events)
        check_tools(own)
        check_children(children)
        assert b.engine.session.agents._group.slots._value == setup.most
        assert b.refused == []

    run_virtual(main)
