"""Any actions on a conversation in any order: requests stay valid and complete, and the log keeps everything."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.context.collapse import Collapse, ConversationCollapse, find_spans
from agentcli.agent.profile import Profile
from agentcli.assemble.context_pipeline import clearable_tools
from agentcli.context.compact import pin_name
from agentcli.context.edits import WRITTEN, block_id, edit_from_dict
from agentcli.context.old_results import Microcompact, Snip, ToolResultBudget
from agentcli.context.steps import ContextStep, Pipeline
from agentcli.context.view import ContextView
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.session.base import SessionContext
from agentcli.session.load import load_session
from agentcli.session.store import SessionStore
from agentcli.tools.base import Output
from tests.context.logs import talks
from tests.support.fakes import MODEL, FakeTool, LoopClock, bench, collect
from tests.support.scripts import call, reply
from tests.support.validate import problems
from tests.support.virtual import run_virtual

HANDOVER = "write a hand-over"
OPERATIONS = ("drop", "drop", "restore", "pin", "unpin", "compact", "undo", "prompt", "stage", "drain")


class Anything:
    """An engine on any conversation, to which anything can be done."""

    def __init__(self, folder: Path, log: list[Message], order: list[int], window: int) -> None:
        workplace = SessionContext(folder, Path("/work"), LoopClock(), SequentialIds(), "test")
        self.store = SessionStore.create(workplace, "00000000-0000-4000-8000-000000000abc")
        self.step = Collapse()
        view, pins = ContextView("The rules."), set[str]()
        steps: list[ContextStep] = [ToolResultBudget(lambda name, _text: f"/{name}", 2_000, 4_000), Snip()]
        steps += [Microcompact(clearable_tools(), keep=1, threshold=0.1), self.step]
        summary = reply("1. Intent: to go on.", match=HANDOVER, repeat=True)
        looks = [reply(call("Look", what=str(number)), match=f"look {number}$") for number in range(12)]
        self.collapsing = ConversationCollapse(view, self.step)
        self.bench = bench(
            summary,
            *looks,
            reply("Fine.", repeat=True),
            log=tuple(log),
            view=view,
            pins=pins,
            store=self.store,
            pipeline=Pipeline([steps[number] for number in order]),
            collapser=self.collapsing,
            tools=[FakeTool(output=lambda given: Output(f"Saw {given['what']}. " * 300))],
            profile=Profile(model=MODEL, small_model="x", system=("Be good.",), context_window=window),
        )
        self.engine = self.bench.engine
        self.view = view
        self.log = log
        self.prompts = 0
        self.undone: set[str] = set()
        self.last_words = "the very last words"

    async def do(self, what: str, draw: Any) -> None:
        engine = self.engine
        shown = [one.id for one in (*engine.context.items(), *engine.context.dropped_items())]
        match what:
            case "drop":
                engine.context.drop(draw(st.sampled_from(shown)))
            case "restore":
                engine.context.restore(draw(st.sampled_from(shown)))
            case "pin":
                engine.context.pin(draw(st.sampled_from(shown)))
            case "unpin" if engine.context.pins:
                engine.context.unpin(draw(st.sampled_from(sorted(engine.context.pins))))
            case "compact":
                await collect(engine.compact())
            case "undo":
                boundary = self.view.edits.boundary(engine.messages)
                written = set(boundary.meta[WRITTEN]) if boundary is not None else set()
                # What was pinned of a compaction itself goes with it: what it stood for is there again.
                self.undone |= {pin for pin in engine.session.pins if pin.rpartition(":")[0] in written}
                await collect(engine.perform(engine.context.undo_compaction()))
            case "prompt":
                self.prompts += 1
                self.last_words = f"please look {self.prompts}"
                await collect(engine.submit(self.last_words))
            case "stage":
                in_force = self.view.edits.shown(self.view.edits.in_force(engine.messages))
                known = {message.id for message in engine.messages}
                for span in list(find_spans(in_force, lambda m: m.id not in known, lambda _message: 1_500))[:2]:
                    self.step.stage(span, "They talked.")
            case "drain":
                edited = self.collapsing.drain(engine.messages, engine.context.pins)
                if edited is not None:
                    engine.session.log.keep(edited)

    def check(self) -> None:
        engine, view = self.engine, self.view
        wire = view.wire(engine.messages)
        assert problems({"model": "m", "max_tokens": 10, "messages": list(wire)}) == []
        assert self.bench.refused == []
        assert self.last_words in json.dumps(list(wire))
        assert list(engine.messages[: len(self.log)]) == self.log
        messages = view.messages(engine.messages)
        names = {pin_name(message, place) for message in messages for place in range(len(message.content))}
        names |= {block_id(message, place) for message in messages for place in range(len(message.content))}
        assert set(engine.session.pins) - self.undone <= names, "what is pinned is there"

    def check_resumed(self) -> None:
        """The session file knows all of it; what it was begun with is not in it."""
        if not self.store.path or not self.store.path.exists():
            return
        loaded, view = load_session(self.store.path), ContextView("The rules.")
        for after, edit in loaded.edits:
            view.edit([edit_from_dict(edit)], after)
        log = [*self.log, *loaded.messages]
        assert log == list(self.engine.messages)
        assert view.wire(log) == self.view.wire(self.engine.messages)
        assert set(loaded.pinned) == set(self.engine.session.pins)


@given(st.data())
def test_anything_in_any_order(data: st.DataObject) -> None:
    log: list[Message] = data.draw(talks())
    order = data.draw(st.permutations(range(4)))
    window = data.draw(st.sampled_from([14_000, 30_000, 200_000]))
    operations = data.draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=10))

    async def main(folder: Path) -> None:
        world = Anything(folder, log, order, window)
        async with world.engine:
            for operation in operations:
                await world.do(operation, data.draw)
                world.check()
            world.check_resumed()

    with TemporaryDirectory() as folder:
        run_virtual(main(Path(folder)))


def test_a_lost_prompt_would_be_detected() -> None:
    """The check itself."""
    last = Message("user", (TextBlock("the very last words"),), "p", Origin.PROMPT)

    async def main(folder: Path) -> None:
        world = Anything(folder, [last], [0, 1, 2, 3], 200_000)
        async with world.engine:
            world.check()
            world.last_words = "never said"
            with pytest.raises(AssertionError):
                world.check()

    with TemporaryDirectory() as folder:
        run_virtual(main(Path(folder)))
