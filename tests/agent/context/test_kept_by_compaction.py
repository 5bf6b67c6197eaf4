"""What a compaction must never lose: the last prompt and pinned content, however often it runs."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.context.compaction import INFLATING, LITTLE_TO_GAIN, NOTHING_YET
from agentcli.agent.profile import Profile
from agentcli.context.estimate import text_tokens
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.messages import ImageBlock, Json, Message, TextBlock
from agentcli.providers.script import Script, ScriptedReply, ScriptedTransport, last_user_text
from agentcli.tools.base import Output
from tests.context.logs import talks
from tests.support.compacting import LONG, told
from tests.support.fakes import MODEL, Bench, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, reply, say
from tests.support.validate import problems
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

LAST = "Rename every function of the parser, and leave the lexer alone: its tests are not ours. " * 4
PICTURE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})


# ------------------------------------------------------------------------------------------------- again and again


async def test_the_picture_of_the_last_prompt_is_still_there_after_the_second_compaction() -> None:
    b = bench(LONG, LONG, "A summary. " * 40, "A summary. " * 30, "On.")
    async with b.engine:
        await b.run("Tell a story.")
        await collect(b.engine.submit((TextBlock(LAST), PICTURE)))
        for _time in range(2):
            assert not result_of(await collect(b.engine.compact())).is_error
        await b.run("go")
    assert told(b).count(PICTURE.source["data"]) == 1


@given(st.data())
def test_the_last_prompt_is_in_the_next_request_after_any_number_of_compactions(data: st.DataObject) -> None:
    log: list[Message] = data.draw(talks())
    lengths = data.draw(st.lists(st.sampled_from([1, 5, 30, 200]), min_size=1, max_size=4))
    window = data.draw(st.sampled_from([9_000, 200_000]))

    async def main() -> None:
        profile = Profile(model=MODEL, small_model="x", context_window=window)
        summaries: list[Any] = [reply("Some of it. " * length) for length in lengths]
        b = bench(*summaries, reply("On.", repeat=True), log=tuple(log), profile=profile)
        async with b.engine:
            for _length in lengths:
                for failed in only(await collect(b.engine.compact()), ev.CompactionFailed):
                    assert failed.text in (INFLATING, LITTLE_TO_GAIN, NOTHING_YET)
                wire = json.dumps(list(b.engine.session.view.wire(b.engine.messages)))
                assert "the very last words" in wire
            assert list(b.engine.messages[: len(log)]) == log
        assert b.refused == []

    run_virtual(main)


# --------------------------------------------------------------------------------------------------------- with pins


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
