"""A server that refuses a prompt as too long at any step of the recovery: nothing important is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentcli.agent.context.collapse import Collapse, ConversationCollapse, find_spans
from agentcli.agent.costs.cache_watch import UNKNOWN
from agentcli.agent.ports import Hooks
from agentcli.agent.profile import Profile, Tuning
from agentcli.context.estimate import message_tokens
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.messages import Json, Message
from agentcli.providers.script import Script, ScriptedReply, ScriptedTransport
from tests.context.logs import Talk
from tests.support.cacheserver import CachingPlayer, PromptCache
from tests.support.compacting import LONG
from tests.support.examples import points
from tests.support.fakes import MODEL, Bench, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, reply, script
from tests.support.validate import problems
from tests.support.virtual import VirtualLoop, run_virtual

pytestmark = pytest.mark.virtual

HANDOVER = "write a hand-over"
SECRET = "the key is under the mat"
LAST = "Now paint the fence green."
TOO_LONG = {"status": 400, "message": "prompt is too long: 250000 tokens > 200000 maximum"}

Refuse = Callable[[int], bool]
"""Whether the request with this number, of those to the main model, is too long."""


class Refusing(CachingPlayer):
    def __init__(self, played: Script, refuse: Refuse) -> None:
        super().__init__(played, PromptCache(clock=lambda: asyncio.get_running_loop().time()))
        self.refuse = refuse
        self.count = 0
        self.accepted: list[Json] = []

    def next(self, body: Json) -> ScriptedReply:
        self.count += 1
        if self.refuse(self.count - 1):
            return ScriptedReply(error=TOO_LONG)
        self.accepted.append(body)
        return super().next(body)


class Ladder:
    """A conversation with something pinned and, if wanted, two spans that are ready to be collapsed."""

    def __init__(self, refuse: Refuse, *, staged: bool = True, pinned: bool = True, **rest: Any) -> None:
        talk = Talk()
        talk.prompt("where is the key?")
        found = talk.call("Look", {"what": "key"}, SECRET)
        for number in range(6):
            talk.answer(f"Answer {number}. {LONG}")
            talk.prompt(f"question {number}")
        talk.answer("The last answer.")
        self.log: tuple[Message, ...] = tuple(talk.log)
        view, step = ContextView(), Collapse()
        spans = find_spans(talk.log, lambda m: SECRET in str(m.content) or bool(m.tool_uses), message_tokens)
        for span in list(spans)[:2] if staged else ():
            step.stage(span, "They talked.")
        self.refused: list[str] = []
        transport = ScriptedTransport(Script(()), lambda body: self.refused.extend(problems(body)))
        summary = reply("1. Intent: a fence.", match=HANDOVER, repeat=True)
        replies = script(summary, reply(call("Look", what="fence")), reply("Done.", repeat=True))
        transport.player = self.player = Refusing(replies, refuse)
        collapser = ConversationCollapse(view, step)
        pins = {found} if pinned else set()
        given = {"log": self.log, "view": view, "collapser": collapser, "pins": pins, "tools": [FakeTool()], **rest}
        self.bench: Bench = bench(transport=transport, **given)
        self.engine = self.bench.engine
        self._pinned = pinned

    def check(self, last_words: str) -> None:
        """Whatever has happened."""
        assert self.refused == []
        assert self.engine.messages[: len(self.log)] == self.log
        wire = json.dumps(list(self.engine.session.view.wire(self.engine.messages)))
        assert last_words in wire
        assert not self._pinned or SECRET in wire
        for body in self.player.accepted:
            sent = json.dumps(body["messages"])
            if HANDOVER not in sent:
                assert not self._pinned or SECRET in sent


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("staged", [True, False])
def test_any_combination_of_too_long_responses_is_handled(staged: bool, pinned: bool) -> None:
    async def main(mask: int) -> str:
        ladder = Ladder(lambda number: bool(mask >> number & 1), staged=staged, pinned=pinned)
        async with ladder.engine:
            events = await collect(ladder.engine.submit(LAST))
            result = result_of(events)
            assert result.terminal in ("completed", "prompt_too_long")
            assert sum(e.trigger == "reactive" for e in only(events, ev.CompactionStarted)) <= 1
            assert all(UNKNOWN not in broken.reason for broken in only(events, ev.PrefixBroken))
            ladder.check(LAST)
            ladder.player.refuse = lambda _number: False
            after = await collect(ladder.engine.submit("And now?"))
            assert result_of(after).terminal == "completed"
            ladder.check("And now?")
        return result.terminal

    ways = {mask: run_virtual(main(mask)) for mask in {0, 1, 0b10111, 2**5 - 1, *points(2**5)}}
    assert ways[0] == ways[1] == "completed"
    assert ways[0b10111] == "prompt_too_long", "a compaction that does not help is not repeated for ever"


@pytest.mark.parametrize("staged", [True, False])
async def test_a_server_that_refuses_every_length_is_given_up_without_losing_anything(
    staged: bool,
) -> None:
    ladder = Ladder(lambda _number: True, staged=staged)
    async with ladder.engine:
        events = await collect(ladder.engine.submit(LAST))
        assert result_of(events).terminal == "prompt_too_long"
        assert len(only(events, ev.CompactionFailed)) == 1
        assert ladder.player.count < 30
        ways = [event.transition for event in only(events, ev.LoopContinued)]
        assert ways == (["collapse_drain_retry"] if staged else [])
        ladder.check(LAST)


# ----------------------------------------------------------------------------------- broken off, whatever triggered it


class Slow(Hooks):
    async def before_compact(self, trigger: str, focus: str) -> str:
        await asyncio.sleep(1)
        return focus

    async def after_compact(self, trigger: str) -> None:
        await asyncio.sleep(1)


def tight(trigger: str) -> dict[str, Any]:
    if trigger == "auto":
        return {"profile": Profile(model=MODEL, small_model="x", system=("Be good.",), context_window=20_000)}
    return {"tuning": Tuning(auto_compact=False)}


@pytest.mark.parametrize("how", ["abort", "leave"])
@pytest.mark.parametrize("trigger", ["auto", "reactive"])
def test_an_abort_at_any_point_leaves_the_recovery_complete_or_undone(trigger: str, how: str) -> None:
    def begun() -> Ladder:
        return Ladder(
            lambda number: trigger == "reactive" and number == 0, staged=False, hooks=Slow(), **tight(trigger)
        )

    async def whole() -> int:
        ladder = begun()
        async with ladder.engine:
            events = await collect(ladder.engine.submit(LAST))
            assert [event.trigger for event in only(events, ev.ContextCompacted)] == [trigger]
            return _loop().steps

    async def main(point: int) -> bool:
        ladder = begun()
        async with ladder.engine:
            task = asyncio.ensure_future(collect(ladder.engine.submit(LAST)))
            stop = task.cancel if how == "leave" else lambda: ladder.engine.abort(AbortReason.USER_CANCEL)
            _loop().act_at[_loop().steps + 2 + point] = stop
            await asyncio.wait([task])
            compacted = ladder.engine.session.view.edits.boundary(ladder.engine.messages) is not None
            ladder.check(LAST)
            assert not ladder.engine.running
            assert result_of(await collect(ladder.engine.submit("And now?"))).terminal == "completed"
            ladder.check("And now?")
        return compacted

    outcomes = [run_virtual(main(point)) for point in points(run_virtual(whole))]
    assert outcomes == sorted(outcomes), "once it has happened it stays"
    assert set(outcomes) == {False, True}


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
