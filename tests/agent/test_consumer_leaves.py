"""A consumer that goes away in the middle: what the session file says is what the conversation in memory is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcli.context.edits import Edit, block_id, edit_from_dict
from agentcli.context.pipeline import Pipeline
from agentcli.context.steps import Plan, Situation
from agentcli.context.view import View
from agentcli.core import events as ev
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message
from agentcli.session.base import Workplace
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from tests.support.fakes import Bench, FakeTool, LoopClock, bench, result_of
from tests.support.scripts import call, reply
from tests.support.virtual import run_virtual


def stored(folder: Path, *replies: Any, **rest: Any) -> Bench:
    workplace = Workplace(folder, Path("/work"), LoopClock(), SequentialIds(), "test")
    store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
    return bench(*replies, store=store, **rest)


async def left_at(b: Bench, prompt: str, wanted: Callable[[ev.Event], bool]) -> None:
    """Read until an event comes, and go away with it."""
    stream = b.engine.submit(prompt)
    async for event in stream:
        if wanted(event):
            break
    else:
        raise AssertionError("it never came")
    await stream.aclose()


def check_file(b: Bench) -> None:
    """A resumed session would be this one."""
    assert b.store.path is not None
    loaded = load_session(b.store.path)
    assert loaded.messages == list(b.engine.messages)
    view = View()
    for after, edit in loaded.edits:
        view.edit([edit_from_dict(edit)], after)
    for redaction in loaded.redactions:
        view.repair(redaction.repair, redaction.through)
    assert view.wire(loaded.messages) == b.engine._parts.view.wire(b.engine.messages)


class Clears:
    """A step that clears one result."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self._number = number

    def plan(self, shown: Sequence[Message], situation: Situation) -> Plan | None:
        blocks = [block_id(message, n) for message in shown for n in range(len(message.tool_results))]
        target = blocks[self._number] if len(blocks) > self._number else ""
        if not target or not situation.is_free(target):
            return None
        return Plan((Edit(kind="replace", target=target, text="[cleared]", freed=9),), "cleared one", must=True)


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_no_step_has_changed_the_view_that_the_file_does_not_know_of(tmp_path: Path, seen: int) -> None:
    async def main() -> None:
        calls = reply(*[call("Look", what=str(number)) for number in range(3)])
        steps = Pipeline([Clears("budget", 0), Clears("snip", 1), Clears("microcompact", 2)])
        b = stored(tmp_path, calls, "Done.", "On.", tools=[FakeTool()], pipeline=steps)
        async with b.engine:
            count = 0

            def wanted(event: ev.Event) -> bool:
                nonlocal count
                count += isinstance(event, ev.ContextEdited)
                return count == seen

            await left_at(b, "look", wanted)
            check_file(b)
            await b.run("on")
            check_file(b)

    run_virtual(main)


def test_every_prompt_that_was_declined_is_left_out_in_the_file_too(tmp_path: Path) -> None:
    async def main() -> None:
        turns = [reply(call("Look", what="a", seconds=5)), reply(stop_reason="refusal"), "On."]
        b = stored(tmp_path, *turns, tools=[FakeTool()])
        async with b.engine:

            def wanted(event: ev.Event) -> bool:
                if isinstance(event, ev.ToolStarted):
                    b.engine.enqueue("and something awful")
                return isinstance(event, ev.RequestRepaired)

            await left_at(b, "something awful", wanted)
            check_file(b)
            result_of(await b.run("on"))
            check_file(b)

    run_virtual(main)
