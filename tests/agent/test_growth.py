"""A turn costs the same however long the conversation is. Calls are counted, so that no clock is needed."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from types import CodeType, FrameType

from agentcli.assemble import build_engine
from agentcli.core.events import LoopContinued
from agentcli.providers.encode import BodyEncoder
from agentcli.providers.provider import MessagesProvider
from tests.bench.growth import LARGE_WINDOW, ReadingModel, options_for
from tests.bench.program import workshop
from tests.bench.tui_history import MESSAGES_A_TURN, write_session

TURNS = 12
COUNTED_FROM = 4
"""The first turns after a resume read all of it once."""
MOST_GROWTH = 1.05
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


class CountedModel(ReadingModel):
    """Also encodes each body, as a transport would."""

    def __init__(self, folder: Path, turns: int) -> None:
        super().__init__(folder, turns)
        self._encoder = BodyEncoder()

    def asked(self, body: dict[str, object]) -> None:
        self._encoder.pieces(body)


def calls_of_turns(earlier_turns: int) -> int:
    calls = Calls()

    async def main() -> None:
        with workshop() as place:
            session = write_session(place, earlier_turns) if earlier_turns else None
            model = CountedModel(place.project, TURNS)
            options = options_for(place, LARGE_WINDOW, MessagesProvider(model), resume=session)
            async with build_engine(options) as engine, aclosing(engine.submit("Read all of it")) as events:
                turn = 0
                async for event in events:
                    turn += isinstance(event, LoopContinued)
                    sys.setprofile(calls if COUNTED_FROM <= turn < TURNS else None)
                sys.setprofile(None)
            assert len(engine.messages) >= earlier_turns * MESSAGES_A_TURN + 2 * TURNS

    try:
        asyncio.run(main())
    finally:
        sys.setprofile(None)
    return calls.count


def test_a_turn_takes_as_many_calls_after_two_thousand_messages_as_in_a_new_session() -> None:
    short, long = calls_of_turns(2), calls_of_turns(500)
    assert long <= short * MOST_GROWTH, f"{long} calls instead of {short}"
