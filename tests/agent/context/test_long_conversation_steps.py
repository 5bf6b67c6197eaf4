"""Work on all messages of a long conversation does not hold the event loop for long. Calls of functions between two
turns of the loop are counted, so that no clock is needed."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import build_engine
from agentcli.core import events as ev
from agentcli.core.ids import RandomIds, SystemClock
from agentcli.core.messages import Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.usage import Usage
from agentcli.providers.provider import MessagesProvider
from agentcli.session.base import SessionContext
from agentcli.session.store import SessionStore
from tests.agent.loop.test_cost_of_a_turn import AllCalls, CountingSelector
from tests.bench.growth import LARGE_WINDOW, ReadingModel, options_for
from tests.bench.loopback import MODEL
from tests.bench.program import Workshop, workshop

EXCHANGES = 300
MAX_CALLS_A_TURN = {"first": 130_000, "next": 13_000, "compact": 49_000}
"""Of the event loop, which takes 116,000, 11,300 and 44,600 on Python 3.11. The first request after a resume reads all
messages; a context step adds to each."""


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Finalizers of what earlier tests left behind would be counted."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def conversation(exchanges: int) -> list[Message]:
    """One file read again and again."""
    messages = [user_message("Read it.", "p", Origin.PROMPT)]
    text = "".join(f"{number}\tThe quick brown fox jumps over the lazy dog.\n" for number in range(1, 13))
    for number in range(exchanges):
        call = ToolUseBlock(f"toolu_{number:06d}", "Read", {"file_path": "/x/same.py", "limit": 1_000 + number})
        result = ToolResultBlock(call.id, (TextBlock(text),))
        usage = Usage(3, 5, cache_read_input_tokens=300 * number)
        messages += [
            Message("assistant", (call,), f"a{number}", Origin.REPLY, f"msg_{number}", MODEL, "tool_use", usage),
            Message("user", (result,), f"r{number}", Origin.TOOL_RESULTS),
        ]
    return messages


class LongestTurn(CountingSelector):
    """Also finds the turn of the event loop with the most calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = AllCalls()
        self.longest = 0
        self._before = 0

    def select(self, timeout: float | None = None) -> list[tuple[object, int]]:  # type: ignore[override]
        self.longest = max(self.longest, self.calls.count - self._before)
        self._before = self.calls.count
        return super().select(timeout)  # type: ignore[return-value]


def write_session(place: Workshop, messages: Sequence[Message]) -> str:
    ids = RandomIds()
    state = Path(place.home) / ".local/state/agentcli"
    store = SessionStore.create(SessionContext(state, Path(place.project), SystemClock(), ids, "test"), ids.new())
    for message in messages:
        store.record(ev.MessageAppended(message=message))
    store.close()
    return store.session_id


async def events_of(engine: Engine, prompt: str | None) -> list[ev.Event]:
    """`prompt` None: the conversation is compacted."""
    async with aclosing(engine.compact() if prompt is None else engine.submit(prompt)) as events:
        return [event async for event in events]


def test_hundreds_of_messages_are_snipped_and_compacted_without_holding_the_event_loop() -> None:
    selector = LongestTurn()
    longest: dict[str, int] = {}

    async def main() -> None:
        with workshop() as place:
            session = write_session(place, conversation(EXCHANGES))
            model = ReadingModel(place.project, 0)
            options = options_for(place, LARGE_WINDOW, MessagesProvider(model), resume=session)
            async with build_engine(options) as engine:
                for name, prompt in (("first", "Go on."), ("next", "And on."), ("compact", None)):
                    selector.longest = 0
                    sys.setprofile(selector.calls)
                    events = await events_of(engine, prompt)
                    sys.setprofile(None)
                    longest[name] = selector.longest
                    if name == "first":
                        edits = [len(event.edits) for event in events if isinstance(event, ev.ContextEdited)]
                        assert max(edits) > EXCHANGES - 10
                assert any(isinstance(event, ev.ContextCompacted) for event in events)

    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            runner.run(main())
    finally:
        sys.setprofile(None)
    assert all(longest[name] <= most for name, most in MAX_CALLS_A_TURN.items()), f"{longest}, not {MAX_CALLS_A_TURN}"
