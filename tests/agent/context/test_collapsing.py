"""Old exchanges are summarised during work and replaced when space is needed: in the engine, with failures."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.context.collapse import MAX_FAILURES, MAX_TRIES, Collapse, ConversationCollapse
from agentcli.agent.ports import Staging
from agentcli.agent.profile import Profile, Tuning
from agentcli.assemble import Options, build_engine
from agentcli.context.edits import ContextEdit, edit_from_dict
from agentcli.context.steps import Pipeline
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, AbortReason, AbortSignal
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Message, Origin
from agentcli.providers.script import Script, ScriptedReply, ScriptedTransport
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output, Progress, ToolContext
from tests.context.logs import Talk
from tests.support.cacheserver import CachingPlayer, PromptCache
from tests.support.examples import points
from tests.support.fakes import MODEL, Bench, FakeTool, LoopClock, bench, collect, only, result_of
from tests.support.scripts import call, fails, pause, provider_on, reply, say, script
from tests.support.tables import each_row
from tests.support.validate import problems
from tests.support.virtual import VirtualLoop, run_virtual

pytestmark = pytest.mark.virtual

WINDOW = 32_000
SMALL = "claude-haiku-5-5"
PROFILE = Profile(model=MODEL, small_model=SMALL, system=("Be good.",), output_cap=2_000, context_window=WINDOW)
"""30,000 tokens fit: from 18,000 on summaries are made, from 22,500 on they are used, down to 13,500."""
ANSWER = ("Part of a long story. " * 600).strip()
"""About 3,000 tokens."""
GIST = "They told the beginning of a story."
RECORD = "record of a finished part"
"""In what the small model is asked."""
SUMMARY = reply(GIST, match=RECORD, repeat=True)


MOST = 22_500
"""Less than the catalogue believes: only the answer tells."""


class Window(CachingPlayer):
    """A model that refuses what does not fit, and says truly what it has used."""

    def __init__(self, played: Script, most: int) -> None:
        super().__init__(played, PromptCache(clock=lambda: asyncio.get_running_loop().time()))
        self.most = most

    def next(self, body: Json) -> ScriptedReply:
        size = len(json.dumps(body["messages"])) // 4
        if size > self.most and body["model"] == MODEL:
            return ScriptedReply(
                error={"status": 400, "message": f"prompt is too long: {size} tokens > {self.most} maximum"}
            )
        return super().next(body)


class Stage:
    """An engine with a collapser, on a model with a window."""

    def __init__(self, *replies: Json | str, most: int = 10**9, transport: Any = None, **rest: Any) -> None:
        self.view = rest.pop("view", None) or ContextView()
        self.collapsing = ConversationCollapse(self.view, Collapse())
        self.refused: list[str] = []
        if transport is None:
            transport = ScriptedTransport(script(*replies), self._check)
            transport.player = Window(script(*replies), most)
        pipeline = Pipeline([self.collapsing.step])
        given = {"profile": PROFILE, "pipeline": pipeline, "collapser": self.collapsing, **rest}
        self.bench: Bench = bench(transport=transport, view=self.view, **given)
        self.engine = self.bench.engine

    def shrink(self, most: int) -> None:
        """From now on less fits."""
        player = self.bench.transport.player
        assert isinstance(player, Window)
        player.most = most

    def _check(self, body: Json) -> None:
        self.refused += problems(body)

    @property
    def requests(self) -> list[Json]:
        assert self.refused == []
        return self.bench.transport.requests

    @property
    def asked(self) -> list[Json]:
        """What the small model was asked."""
        return [body for body in self.requests if body["model"] == SMALL]

    @property
    def turns(self) -> list[Json]:
        return [body for body in self.requests if body["model"] == MODEL]

    async def told(self, *numbers: int) -> list[ev.Event]:
        """Ask for these parts of the story."""
        events: list[ev.Event] = []
        for number in numbers:
            events += await self.bench.run(f"part {number}")
        return events


QUICK_PARTS = [reply(say(f"Part {number}. {ANSWER}", chunk=len(ANSWER))) for number in range(6)]
PARTS = [reply(pause(60), say(f"Part {number}. {ANSWER}", chunk=len(ANSWER))) for number in range(30)]
"""So slow that a summary is ready before them."""


def sent(body: Json) -> str:
    return json.dumps(body["messages"])


def edits_of(events: list[ev.Event]) -> list[ContextEdit]:
    return [edit_from_dict(edit) for event in only(events, ev.ContextEdited) for edit in event.edits]


# ----------------------------------------------------------------------------------------------- staging and committing


async def test_summaries_are_prepared_during_work_and_used_when_space_is_needed() -> None:
    s = Stage(SUMMARY, *PARTS)
    async with s.engine:
        await s.told(*range(6))
        assert not s.asked, "there is room enough"
        events = await s.told(6)
        assert s.collapsing.staged() == len(s.asked) >= 2
        assert not only(events, ev.ContextEdited)
        assert "Part 0." in sent(s.turns[-1]), "staged is not committed"
        events = await s.told(7)
        (edited,) = only(events, ev.ContextEdited)
        assert (edited.step, edited.text) == ("collapse", f"summarised {len(edited.edits)} old exchanges")
        assert [edit.step for edit in edits_of(events)] == ["collapse"] * len(edited.edits)
        now = sent(s.turns[-1])
        assert "Part 0." not in now
        assert GIST in now
        assert "part 0" in now, "the user's own words stay"
        assert "Part 6." in now
        assert "part 7" in now
        assert any("Part 0." in message.text for message in s.engine.messages), "the log keeps everything"
        estimated = only(events, ev.RequestStarted)[0].estimated_tokens
        assert estimated == pytest.approx(len(now) / 4, rel=0.1)


class Story(FakeTool):
    """Gives a part of the story, slowly enough for a summary to be ready before it."""

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        await asyncio.sleep(60)
        yield Output(f"{input['what']}. {ANSWER}")


STEPS = [reply(call("Look", what=f"Part {number}")) for number in range(12)]


async def test_finished_turns_of_one_prompt_are_summarised_while_it_runs() -> None:
    s = Stage(SUMMARY, *STEPS, "The end.", most=WINDOW, tools=[Story()])
    async with s.engine:
        events = await s.bench.run("tell it all")
    assert result_of(events).text == "The end."
    assert not only(events, ev.ContextCompacted)
    edited = only(events, ev.ContextEdited)
    assert edited
    assert re.fullmatch(r"summarised (an|\d+) old turns?", edited[0].text)
    now = sent(s.turns[-1])
    assert "tell it all" in now
    assert GIST in now
    assert "Part 0." not in now
    assert "Part 11." in now
    broken = 0
    for before, after in pairwise(s.turns):
        old, new = ([bare(message) for message in body["messages"]] for body in (before, after))
        broken += new[: len(old)] != old
    assert broken == len(edited), "between two batches each request begins with the previous one"


def bare(message: Json) -> str:
    blocks = [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]
    return json.dumps([message["role"], blocks])


# ---------------------------------------------------------------------------------------------------- too long a prompt


class UntilStaged(FakeTool):
    """Answers when a summary is ready."""

    def __init__(self, staged: Callable[[], int], count: int = 2) -> None:
        super().__init__()
        self._staged = staged
        self._count = count
        self.before_it_answers: Callable[[], None] = lambda: None

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        while self._staged() < self._count:
            await asyncio.sleep(0.001)
        self.before_it_answers()
        yield Output("ready " * 2_000)


def too_long_replies() -> list[Json]:
    """Six parts; then a call during which summaries are made and whose result does not fit any more."""
    return [SUMMARY, *QUICK_PARTS, reply(call("Look")), reply("It fits.")]


async def runs_into_it(s: Stage) -> list[ev.Event]:
    await s.told(*range(6))
    return await s.bench.run("part 6")


def check_drained(events: list[ev.Event], turns: list[Json]) -> None:
    continued = [(event.transition, event.data) for event in only(events, ev.LoopContinued)]
    (edited,) = only(events, ev.ContextEdited)
    assert ("collapse_drain_retry", {"committed": len(edited.edits)}) in continued
    assert edited.freed_tokens > 3_000
    assert not only(events, ev.ContextCompacted)
    assert result_of(events).text == "It fits."
    assert "Part 0." in sent(turns[-2])
    assert "Part 0." not in sent(turns[-1])
    assert GIST in sent(turns[-1])
    assert "ready ready" in sent(turns[-1])


async def test_a_prompt_that_is_too_long_commits_everything_at_once() -> None:
    s = Stage(*too_long_replies(), most=MOST, tools=[UntilStaged(lambda: s.collapsing.staged())])
    async with s.engine:
        events = await runs_into_it(s)
    check_drained(events, s.turns)


async def test_a_conversation_that_still_does_not_fit_is_compacted() -> None:
    replies = [*too_long_replies()[:-1], reply("The story.", match="write a hand-over"), reply("It fits.")]
    tool = UntilStaged(lambda: s.collapsing.staged())
    s = Stage(*replies, tools=[tool])
    tool.before_it_answers = lambda: s.shrink(9_000)
    async with s.engine:
        events = await runs_into_it(s)
    ways = [event.transition for event in only(events, ev.LoopContinued)]
    assert ways == ["next_turn", "collapse_drain_retry", "reactive_compact_retry"]
    assert result_of(events).text == "It fits."


# ---------------------------------------------------------------------------------------------------- what goes wrong


@each_row(
    "wrong",
    [
        fails(400, "no", "invalid_request_error"),
        fails(401, "no", "authentication_error"),
        reply("cut", stop_reason="max_tokens"),
        reply("no", stop_reason="refusal"),
    ],
)
async def test_a_span_whose_summary_fails_three_times_is_left_alone(wrong: Json) -> None:
    s = Stage({**wrong, "match": RECORD, "repeat": True}, *PARTS, tuning=Tuning(auto_compact=False))
    async with s.engine:
        events = await s.told(*range(14))
    tried = [sent(body) for body in s.asked]
    assert max(map(tried.count, tried)) == MAX_TRIES
    assert len(tried) == MAX_FAILURES, "then the small model is not to be had"
    assert s.collapsing.staged() == 0
    assert not only(events, ev.ContextEdited)
    assert result_of(events[-1:]).is_error is False


@pytest.mark.parametrize("text", ["Too many words. " * 600, " \n"])
async def test_a_useless_summary_is_not_staged_and_not_requested_again(text: str) -> None:
    s = Stage(reply(text, match=RECORD, repeat=True), *PARTS)
    async with s.engine:
        await s.told(*range(8))
    asked = [sent(body) for body in s.asked]
    assert len(asked) == len(set(asked)) > 1
    assert s.collapsing.staged() == 0


async def test_an_unfinished_summary_is_cancelled_at_the_end_and_its_cost_is_counted() -> None:
    slow = reply(pause(1_000), GIST, match=RECORD, repeat=True)
    s = Stage(slow, *PARTS, tuning=Tuning(auto_compact=False))
    async with s.engine:
        events = await s.told(*range(18))
        assert s.collapsing.staged() == 0
    paid = [event for event in only(events, ev.UsageReported) if event.purpose == "collapse"]
    assert len(paid) == len(s.asked) > MAX_TRIES
    asked = [sent(body) for body in s.asked]
    assert max(map(asked.count, asked)) == MAX_TRIES, "nobody pays for the same again and again"


# --------------------------------------------------------------------------------------------------------- breaking off


def loop() -> VirtualLoop:
    running = asyncio.get_running_loop()
    assert isinstance(running, VirtualLoop)
    return running


def breaking_stage() -> Stage:
    """Six parts were told; summaries are made during the next prompt."""
    talk = Talk()
    for number in range(6):
        talk.prompt(f"part {number}")
        talk.answer(f"Part {number}. {ANSWER}")
    gist = reply("They told ", pause(1), "the beginning.", match=RECORD, repeat=True)
    replies = (gist, reply(call("Look")), *PARTS[6:])
    return Stage(*replies, tools=[FakeTool(seconds=3)], most=WINDOW, log=tuple(talk.log))


def steps_of_a_whole_run() -> int:
    async def main() -> int:
        s = breaking_stage()
        async with s.engine:
            begun = loop().steps
            await s.told(6)
            assert s.collapsing.staged()
            return loop().steps - begun

    return run_virtual(main)


@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_an_abort_at_any_point_stages_nothing_incomplete(how: str) -> None:
    async def main(point: int) -> int:
        s = breaking_stage()
        async with s.engine:
            task = asyncio.ensure_future(collect(s.engine.submit("part 6")))
            stop = task.cancel if how == "cancel" else lambda: s.engine.abort(AbortReason.USER_CANCEL)
            loop().act_at[loop().steps + 2 + point] = stop  # not before it has begun
            await asyncio.wait([task])
            assert not loop().act_at, "it has come to that"
            assert not [other for other in asyncio.all_tasks() if other.get_name() == "context collapse"]
            staged = list(s.collapsing.step.staged.values())
            assert all(one.text.endswith("They told the beginning.") for one in staged)
            events = await s.told(7)
            assert not result_of(events).is_error
            assert s.refused == []
            return len(staged)

    steps = steps_of_a_whole_run() - 4
    counts = {run_virtual(lambda point=point: main(point)) for point in {steps // 2, *points(steps)}}  # type: ignore[misc]
    assert len(counts) > 1, "before the first, and between two"


# ------------------------------------------------------------------------------------------------ the user's edits


def staging_of(s: Stage, **rest: Any) -> Staging:
    return Staging(s.engine.session, **{"log": s.engine.messages, "estimate": 29_000, "usable": 30_000, **rest})


async def all_staged(s: Stage, **rest: Any) -> set[str]:
    """The prompts with which the staged spans begin."""
    s.collapsing.stage(staging_of(s, **rest), AbortController().signal)
    while s.collapsing._task is not None and not s.collapsing._task.done():
        await asyncio.sleep(1)
    by_id = {message.id: message for message in s.engine.messages}
    return {by_id[first].text for first in s.collapsing.step.staged}


def prompt(s: Stage, number: int) -> Message:
    return next(m for m in s.engine.messages if m.origin is Origin.PROMPT and m.text == f"part {number}")


async def test_pinned_content_is_not_summarised() -> None:
    s = Stage(SUMMARY, *PARTS)
    async with s.engine:
        await s.told(*range(6))
        pinned = frozenset({f"{prompt(s, 1).id}:0"})
        assert await all_staged(s, pinned=pinned, usable=12_000) == {"part 0", "part 2", "part 3"}


async def test_items_restored_by_the_user_are_left_alone() -> None:
    s = Stage(SUMMARY, *PARTS)
    async with s.engine:
        await s.told(*range(6))
        original = s.view.wire(s.engine.messages)
        assert await all_staged(s, usable=12_000) == {"part 0", "part 1", "part 2", "part 3"}
        edited = s.collapsing.drain(s.engine.messages, frozenset())
        assert edited is not None
        assert s.collapsing.drain(s.engine.messages, frozenset()) is None
        assert s.view.wire(s.engine.messages) != original
        for edit in map(edit_from_dict, edited.edits):
            s.view.edit([ContextEdit(kind="restore", target=edit.target, step="user")])
        assert s.view.wire(s.engine.messages) == original
        assert await all_staged(s, usable=12_000) == set()


# --------------------------------------------------------------------------------------------------- in another process


async def test_a_resumed_session_sends_the_same_bytes(tmp_path: Path) -> None:
    workplace = SessionContext(tmp_path, tmp_path, LoopClock(), SequentialIds(), "1")
    store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000001")
    s = Stage(SUMMARY, *PARTS, store=store)
    async with s.engine:
        events = await s.told(*range(9))
        assert only(events, ev.ContextEdited)
        wire = s.view.wire(s.engine.messages)
    assert store.path is not None
    loaded = load_session(store.path)
    view = ContextView()
    for after, edit in loaded.edits:
        view.edit([edit_from_dict(edit)], after)
    assert view.wire(loaded.messages) == wire
    again = Stage(SUMMARY, *PARTS[9:], view=view, log=tuple(loaded.messages))
    async with again.engine:
        assert again.collapsing.staged() == 0
        await again.told(9)
        begun = [bare(message) for message in again.turns[0]["messages"]]
        assert begun[: len(wire)] == [bare(message) for message in wire]


@pytest.mark.anyio
@pytest.mark.parametrize("switched_on", [True, False])
async def test_the_setting_turns_collapsing_on_and_off(tmp_path: Path, switched_on: bool) -> None:
    (tmp_path / "home").mkdir()
    replies = [SUMMARY, *QUICK_PARTS, *[reply(pause(0.3), *one["steps"][1:]) for one in PARTS[6:8]]]
    transport = ScriptedTransport(script(*replies))
    transport.player = Window(script(*replies), WINDOW)
    options = Options(
        cwd=tmp_path,
        environ={"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "AGENTCLI_CONTEXT_WINDOW": "40000"},
        provider=provider_on(transport),
        sandbox="off",
        model=MODEL,
        settings=json.dumps({"context": {"collapse": switched_on}, "smallModel": SMALL, "systemPrompt": ""}),
        persist=False,
    )
    async with build_engine(options) as engine:
        events = [event for number in range(8) for event in await collect(engine.submit(f"part {number}"))]
    assert bool([body for body in transport.requests if body["model"] == SMALL]) is switched_on
    assert [event.step for event in only(events, ev.ContextEdited)] == ["collapse"] * switched_on
    assert [problems(body) for body in transport.requests] == [[] for _ in transport.requests]
