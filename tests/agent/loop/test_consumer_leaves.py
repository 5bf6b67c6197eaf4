"""A consumer that leaves in the middle: session file and log in memory agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.context.edits import ContextEdit, block_id, edit_from_dict
from agentcli.context.steps import ContextState, Pipeline, StepPlan
from agentcli.context.view import ContextView, check_pairing, normalise
from agentcli.core import events as ev
from agentcli.core.aio import AbortSignal
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Message
from agentcli.session.base import SessionContext
from agentcli.session.load import UNFINISHED, load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output, ToolContext
from tests.session.conversations import SESSION_ID, workplace
from tests.support.fakes import Bench, FakeTool, LoopClock, bench, result_of
from tests.support.scripts import call, fault, pause, reply, say, think
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


def stored(folder: Path, *replies: Any, **rest: Any) -> Bench:
    workplace = SessionContext(folder, Path("/work"), LoopClock(), SequentialIds(), "test")
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
    if not b.engine.messages:
        assert not b.store.path.exists()
        return
    loaded = load_session(b.store.path)
    assert loaded.messages == list(b.engine.messages)
    view = ContextView()
    for after, edit in loaded.edits:
        view.edit([edit_from_dict(edit)], after)
    for redaction in loaded.redactions:
        view.repair(redaction.repair, redaction.through)
    assert view.wire(loaded.messages) == b.engine.session.view.wire(b.engine.messages)


HALF = reply(say("All is well. ", 9), call("Look", what="a", seconds=1), say("And more"), pause(5), say(" to come"))
THOUGHT = reply(think("hm"), pause(5), say("There."))
CHANGED = reply(say("I do it. "), call("Change", what="x"), pause(5), say("Done so far", 6), call("Change", what="y"))
BROKEN = reply(say("Lost words. "), call("Look", what="b"), fault("drop"))
CUT = reply(say("Too much. "), call("Look", what="c"), stop_reason="max_tokens")


@pytest.mark.parametrize(
    ("replies", "stays"),
    [
        ((HALF,), True),
        ((THOUGHT,), True),
        ((CHANGED,), True),
        ((BROKEN, "Better."), False),
        ((CUT, "Short."), False),
        ((reply(usage={"input_tokens": 9}), "Yes."), True),
    ],
    ids=["half", "thought", "changed", "broken", "cut", "empty"],
)
def test_file_and_log_agree_whenever_a_consumer_leaves_a_reply(
    replies: Sequence[Any], stays: bool, tmp_path: Path
) -> None:
    """`stays`: nothing that was shown is taken back later."""

    async def main(folder: Path, after: int) -> bool:
        tools = [FakeTool(), FakeTool("Change", safe=False, seconds=1)]
        b = stored(folder, *replies, reply("On.", repeat=True), tools=tools)
        async with b.engine:
            seen: list[ev.Event] = []
            stream = b.engine.submit("go")
            async for event in stream:
                seen.append(event)
                if len(seen) > after:
                    break
            await stream.aclose()
            check_file(b)
            shown = "".join(event.text for event in seen if isinstance(event, ev.TextStreamed))
            assert not stays or shown.strip() in "".join(message.text for message in b.engine.messages)
            await b.run("on")
            check_file(b)
        return isinstance(seen[-1], ev.Result)

    for after in range(80):
        folder = tmp_path / str(after)
        folder.mkdir()
        if run_virtual(main(folder, after)):
            return
    raise AssertionError("it never ended")


class Clears:
    """A step that clears one result."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self._number = number

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        blocks = [block_id(message, n) for message in shown for n in range(len(message.tool_results))]
        target = blocks[self._number] if len(blocks) > self._number else ""
        if not target or not state.is_free(target):
            return None
        return StepPlan(
            (ContextEdit(kind="replace", target=target, text="[cleared]", freed=9),), "cleared one", must=True
        )


@pytest.mark.parametrize("seen", [1, 2, 3])
async def test_every_context_edit_is_recorded_in_the_session_file(tmp_path: Path, seen: int) -> None:
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


async def test_a_declined_prompt_is_left_out_of_the_session_file_too(tmp_path: Path) -> None:
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


class LookingTool(FakeTool):
    """Remembers what the session file has when it runs."""

    file: Path

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal):  # type: ignore[no-untyped-def]
        self.seen = kinds_in(self.file)
        yield Output("looked")


def kinds_in(file: Path) -> list[str]:
    """Types of the lines of a session file that make messages."""
    lines = map(json.loads, file.read_bytes().splitlines()) if file.exists() else ()
    return [line["type"] for line in lines if line["type"] not in ("session", "shown", "request-front")]


def new_store(folder: Path) -> tuple[SessionStore, Path]:
    store = SessionStore.create(workplace(folder), SESSION_ID)
    assert store.path is not None
    return store, store.path


def text_of_request(messages: list[Message]) -> str:
    wire = normalise(messages)
    check_pairing(wire)
    return str(wire.to_tuple())


@pytest.mark.parametrize("is_safe", [True, False])
async def test_calls_are_recorded_before_they_run_and_results_before_they_are_shown(
    tmp_path: Path, is_safe: bool
) -> None:
    store, file = new_store(tmp_path)
    tool = LookingTool(safe=is_safe)
    tool.file = file
    b = bench(reply(call("Look", what="1")), "Done.", tools=[tool], store=store)
    seen: dict[type, list[str]] = {}
    async with b.engine, aclosing(b.engine.submit("go")) as events:
        async for event in events:
            seen[type(event)] = kinds_in(file)
    begun = [] if is_safe else ["call"]
    assert tool.seen == ["user", "assistant", *begun]
    assert seen[ev.ToolFinished][-1] == "user"
    assert seen[ev.LoopEnded] == [
        *("user", "assistant", *begun, "event", "reply-end", "user", "results-end"),
        *("assistant", "event", "reply-end"),
    ]
    assert kinds_in(file)[-1] == "submission-end"


@pytest.mark.parametrize("is_safe", [True, False])
async def test_a_session_killed_at_any_event_goes_on(tmp_path: Path, is_safe: bool) -> None:
    store, file = new_store(tmp_path)
    first = reply(say("I look."), call("Look", what="1"))
    b = bench(first, "Done.", tools=[FakeTool(safe=is_safe)], store=store)
    async with b.engine, aclosing(b.engine.submit("go")) as events:
        requests = [text_of_request(list(load_session(file).messages)) async for _event in events if file.exists()]
    assert all("go" in request for request in requests)
    assert any(UNFINISHED in request for request in requests), "a call without its result"
    assert "looked" in requests[-1]
