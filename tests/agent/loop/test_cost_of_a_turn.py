"""What a turn costs, and that it costs the same however long the conversation is. Calls of functions and turns of the
event loop are counted, so that no clock is needed."""

from __future__ import annotations

import asyncio
import selectors
import sys
from contextlib import aclosing
from pathlib import Path
from types import CodeType, FrameType

from agentcli.assemble import build_engine
from agentcli.core.events import LoopContinued
from agentcli.providers.body import BodyEncoder
from agentcli.providers.provider import MessagesProvider
from tests.bench.growth import LARGE_WINDOW, ReadingModel, options_for
from tests.bench.program import workshop
from tests.bench.tui_history import MESSAGES_A_TURN, write_session

TURNS = 12
COUNTED_FROM = 4
"""The first turns after a resume read all of it once."""
MAX_GROWTH = 1.05
MAX_CALLS = 6_500
"""Of functions of all kinds in a turn that reads a file, which takes 6,180 on Python 3.11."""
MAX_LOOP_TURNS = 16
"""In such a turn, which takes 14 on Python 3.11, and more when a thread is slow."""
_PACKAGE = str(Path(build_engine.__code__.co_filename).parents[1])


class Calls:
    """Counts calls of the package's functions and resumed generators."""

    def __init__(self) -> None:
        self.count = 0
        self._ours: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code = frame.f_code
            if code not in self._ours:
                self._ours[code] = code.co_filename.startswith(_PACKAGE)
            self.count += self._ours[code]


class AllCalls(Calls):
    """Counts calls of all functions, also of those that are not written in Python."""

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        self.count += event in ("call", "c_call")


class CountingSelector(selectors.DefaultSelector):
    """Counts turns of the event loop: each asks it once."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        return super().select(timeout)


class CountedModel(ReadingModel):
    """Also encodes each body, as a transport would."""

    def __init__(self, folder: Path, turns: int) -> None:
        super().__init__(folder, turns)
        self._encoder = BodyEncoder()

    def asked(self, body: dict[str, object]) -> None:
        self._encoder.encode(body)


def counts_of_turns(earlier_turns: int, calls: Calls) -> tuple[int, int]:
    """Calls and event loop turns of `TURNS - COUNTED_FROM` turns."""
    selector = CountingSelector()

    async def main() -> int:
        loop_turns = 0
        with workshop() as place:
            session = write_session(place, earlier_turns) if earlier_turns else None
            model = CountedModel(place.project, TURNS)
            options = options_for(place, LARGE_WINDOW, MessagesProvider(model), resume=session)
            async with build_engine(options) as engine, aclosing(engine.submit("Read all of it")) as events:
                turn = 0
                async for event in events:
                    turn += isinstance(event, LoopContinued)
                    if isinstance(event, LoopContinued) and turn in (COUNTED_FROM, TURNS):
                        loop_turns = selector.turns - loop_turns
                    sys.setprofile(calls if COUNTED_FROM <= turn < TURNS else None)
                sys.setprofile(None)
            assert len(engine.messages) >= earlier_turns * MESSAGES_A_TURN + 2 * TURNS
            return loop_turns

    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            loop_turns = runner.run(main())
    finally:
        sys.setprofile(None)
    return calls.count, loop_turns


def test_a_turn_takes_as_many_calls_after_a_thousand_messages_as_in_a_new_session() -> None:
    (short, _turns), (long, _more) = counts_of_turns(2, Calls()), counts_of_turns(250, Calls())
    assert long <= short * MAX_GROWTH, f"{long} calls instead of {short}"


def test_a_turn_takes_few_calls_and_few_turns_of_the_event_loop() -> None:
    # The first run fills the caches of the process, and a slow thread adds calls to any run.
    calls, loop_turns = min(counts_of_turns(0, AllCalls()) for _ in range(3))
    counted = TURNS - COUNTED_FROM
    assert calls / counted <= MAX_CALLS, "every request now costs more: find what was added to each turn"
    assert loop_turns / counted <= MAX_LOOP_TURNS
