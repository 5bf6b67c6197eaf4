"""The question whether a command runs again with network: what its call shows afterwards, on virtual time."""

from __future__ import annotations

import asyncio

from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.tools.base import Output
from tests.support.fakes import FakeTool, bench, only
from tests.support.scripts import call, reply
from tests.support.virtual import run_virtual


def finished(answer: Answer) -> ev.ToolFinished:
    """The end of a call of two seconds that wants network once and gets `answer` after a minute."""
    outputs = [Output("page", summary="exit code 0")]
    outputs.insert(0, Output("no host", summary="exit code 0", wanted_hosts=("a.example",)))

    def output(_input: Json) -> Output:
        return outputs.pop(0)

    events: list[ev.Event] = []

    async def main() -> None:
        b = bench(
            reply(call("Look")), "Done.", tools=[FakeTool(safe=False, seconds=2, output=output)], interactive=True
        )
        async with b.engine:
            async for event in b.engine.submit("go"):
                events.append(event)
                if isinstance(event, ev.PermissionRequested):
                    await asyncio.sleep(60)
                    b.engine.answer(event.request_id, answer)

    run_virtual(main)
    (end,) = only(events, ev.ToolFinished)
    return end  # type: ignore[no-any-return]


def test_the_time_of_a_call_is_without_the_wait_for_the_answer() -> None:
    assert finished(Answer("allow")).duration_ms == 4_000
    assert finished(Answer("deny")).duration_ms == 2_000


def test_a_declined_network_is_a_denial_by_the_user_also_after_exit_code_0() -> None:
    end = finished(Answer("deny"))
    assert (end.outcome, end.denied_by, end.summary) == ("denied", "you", "exit code 0, network denied by you")
    assert not end.result.is_error
    assert finished(Answer("allow")).outcome == "done"
