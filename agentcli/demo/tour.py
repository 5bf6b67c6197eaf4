"""The stops of the tour and their order.

The user may do anything in any order: the next stop is the first one that still makes sense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.agent.loop.wording import INTERRUPTED, INTERRUPTED_TOOLS
from agentcli.core.frozen import frozen
from agentcli.demo import words

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

_TIMES_ASKED = 2
"""How often the fix is offered after a refusal."""


@frozen
class TourStop:
    name: str
    line: str
    """The text that Enter sends."""
    note: str = ""
    """Text shown before the stop."""
    stop_after: int = 0
    """Without a terminal: interrupt the answer after about this many tokens."""


FIX = TourStop("fix", words.FIX)
FIX_AGAIN = TourStop("fix", words.FIX_AGAIN)
TALK = TourStop(
    "talk",
    words.TALK,
    "Stop 2 of 6, interrupting: a long answer follows. Press Esc during it.",
    stop_after=110,
)
STEER = TourStop("steer", words.STEER, "Stopped. Type what you want instead, or press Enter for a suggestion.")
EFFORT = TourStop(
    "effort", "/effort high", "Stop 3 of 6, effort: how hard the model works. The status line at the bottom shows it."
)
COMPACT = TourStop(
    "compact", "/compact", "Stop 4 of 6, compaction: a summary replaces the conversation. You see it first."
)
UNDO = TourStop("undo", "/undo", "Stop 5 of 6, undo: reverts the file changes of a prompt, with or without git.")
REDO = TourStop("redo", "/redo", "The bug is back. /redo reverts the undo.")
GOODBYE = TourStop("goodbye", words.GOODBYE, "Stop 6 of 6: next steps.")
LEAVE = TourStop("leave", "/exit", "The tour is over: Enter leaves. Stay as long as you like.")
_COMMANDS = {stop.line.split()[0]: stop for stop in (EFFORT, COMPACT, UNDO, REDO, LEAVE)}
_PROMPTS = {stop.line: stop for stop in (FIX, FIX_AGAIN, TALK, STEER, GOODBYE)}


class Tour:
    """Records what was sent and the state of the work, from which `next` follows."""

    welcome = words.WELCOME

    def __init__(self, fixed: Callable[[], bool]) -> None:
        self._fixed = fixed
        self._sent: Counter[str] = Counter()
        self._interrupted = False

    def sent(self, text: str) -> None:
        """Record a prompt, command or shell line of the user."""
        text = text.strip()
        if text.startswith("/"):
            stop = _COMMANDS.get(text.split()[0])
            if stop is not None and self._makes_sense(stop):
                self._sent[stop.name] += 1
        elif not text.startswith("!"):
            stop = _PROMPTS.get(text)
            if self._interrupted:
                self._sent["steer"] += 1
                self._interrupted = False
            self._sent["prompt"] += 1
            if stop is not None and stop is not STEER:
                self._sent[stop.name] += 1

    def _makes_sense(self, stop: TourStop) -> bool:
        """Whether a command has something to work on; otherwise it does not count as a stop."""
        if stop is UNDO:
            return self._fixed()
        if stop is REDO:
            return self._sent["undo"] > 0
        return self._sent["prompt"] > 0 or stop is not COMPACT

    def look(self, engine: Engine) -> None:
        """Record how the last submission ended; call while nothing runs."""
        last = engine.messages[-1].text if engine.messages else ""
        self._interrupted = last in (INTERRUPTED, INTERRUPTED_TOOLS)

    def next(self) -> TourStop:
        sent, fixed = self._sent, self._fixed()
        undone = sent["undo"] > 0
        if not fixed and not undone and sent["fix"] < _TIMES_ASKED:
            return FIX_AGAIN if sent["fix"] else FIX
        if self._interrupted and sent["talk"] and not sent["steer"]:
            return STEER
        for stop in (TALK, EFFORT, COMPACT):
            if not sent[stop.name]:
                return stop
        if fixed and not undone:
            return UNDO
        if undone and not fixed:
            if not sent["redo"]:
                return REDO
            if sent["fix"] <= _TIMES_ASKED:
                return FIX_AGAIN
        return LEAVE if sent["goodbye"] else GOODBYE
