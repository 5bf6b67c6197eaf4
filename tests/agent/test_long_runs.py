"""Long conversations with a small context window, on a model that counts its input: nothing important is lost."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from agentcli.agent.profile import Profile
from agentcli.context.estimate import text_tokens
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.providers.script import Script, ScriptedReply, ScriptedTransport, last_user_text
from agentcli.tools.base import Output
from tests.support.fakes import MODEL, Bench, FakeTool, bench, only, result_of
from tests.support.scripts import call, say
from tests.support.validate import problems

pytestmark = pytest.mark.virtual

WINDOW = 100_000
CONSTRAINT = "Whatever happens, never touch the file prod.cfg."
RULES = "The project's rules: tabs, not spaces."
TURNS = 25


def true_tokens(body: Json) -> int:
    """What this model's tokenizer makes of a request: a little denser than the estimate thinks."""
    parts = [*body["messages"], body.get("system"), body.get("tools")]
    return int(1.1 * sum(_counted(json.dumps(part, ensure_ascii=False)) for part in parts))


@functools.cache
def _counted(text: str) -> float:
    """A turn adds two messages, and later turns send the earlier ones again."""
    return text_tokens(text)


class CountingModel:
    """Works through tools for so many turns, then answers. Asked for a hand-over, it says the constraint again if it
    has been told; what it bills is what it was sent."""

    def __init__(self, turns: int = TURNS) -> None:
        self._turns = turns
        self._turn = 0
        self.sizes: list[int] = []
        self.handovers = 0

    def next(self, body: Json) -> ScriptedReply:
        size = true_tokens(body)
        self.sizes.append(size)
        if "write a hand-over" in last_user_text(body):
            self.handovers += 1
            echo = f"1. Intent: the work. {CONSTRAINT}" if CONSTRAINT in json.dumps(body) else "1. Intent: the work."
            steps: list[Json] = [say(echo + " Some detail of what was done." * 200)]
        else:
            self._turn += 1
            done = self._turn % self._turns == 0
            steps = [say(f"Done with part {self._turn}.")] if done else [call("Look", what=f"part {self._turn}")]
        written = max(1, int(text_tokens(json.dumps(steps))))
        return ScriptedReply(steps=tuple(steps), usage={"input_tokens": size, "output_tokens": written})


def long_bench(model: Any, refused: list[str], **rest: Any) -> Bench:
    """`refused` gets what the API would have said no to."""

    def check(body: Json) -> None:
        refused.extend(problems(body))

    transport = ScriptedTransport(Script(()), check)
    transport.player = model
    text = "見たファイルの一行とその次の行\n" * 200  # many tokens in few bytes: what is checked here costs by the byte
    tool = FakeTool(output=lambda given: Output(f"{given['what']}\n{text}"))
    profile = Profile(model=MODEL, small_model="claude-haiku-5-5", system=("Be good.",), context_window=WINDOW)
    return bench(transport=transport, tools=[tool], profile=profile, view=ContextView(RULES), **rest)


async def test_many_turns_in_a_small_window_lose_no_instruction() -> None:
    model, refused = CountingModel(), list[str]()
    b = long_bench(model, refused)
    compacted: list[ev.ContextCompacted] = []
    async with b.engine:
        for number in range(3):
            prompt = f"Refactor everything. {CONSTRAINT}" if number == 0 else f"Go on with chapter {number}."
            events = await b.run(prompt)
            assert result_of(events).terminal == "completed"
            assert result_of(events).turns == TURNS
            assert not only(events, ev.CompactionFailed)
            compacted += only(events, ev.ContextCompacted)
    assert len(b.requests) == 3 * TURNS + model.handovers
    assert refused == []
    assert max(model.sizes) < WINDOW
    assert 2 <= len(compacted) == model.handovers <= 10
    assert all(event.tokens_after < event.tokens_before / 2 for event in compacted)
    for request in b.requests:
        sent = json.dumps(request["messages"])
        assert CONSTRAINT in sent
        assert RULES in sent


async def test_the_reported_size_after_a_compaction_is_correct() -> None:
    model, refused = CountingModel(turns=40), list[str]()
    b = long_bench(model, refused)
    events = await b.once(CONSTRAINT)
    sizes = iter(model.sizes)
    size, expected = 0, None
    for event in events:
        if isinstance(event, ev.RequestStarted):
            size = next(sizes)
            if expected is not None:
                assert expected == pytest.approx(size, rel=0.15)
                expected = None
        if isinstance(event, ev.ContextCompacted):
            expected = event.tokens_after
    assert size
    assert only(events, ev.ContextCompacted)
