"""The stops of the tour and their order, and the tour as lines of text where there is no terminal.

The user may do anything in any order: the next stop is the first one that still makes sense.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentcli.agent.loop.wording import INTERRUPTED, INTERRUPTED_TOOLS
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.frozen import frozen
from agentcli.core.messages import TextBlock, ThinkingBlock, unwrap_error
from agentcli.core.permission import Answer
from agentcli.core.text.format import token_count
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.demo import words

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options

_MAX_OFFERS = 2
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
        if not fixed and not undone and sent["fix"] < _MAX_OFFERS:
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
            if sent["fix"] <= _MAX_OFFERS:
                return FIX_AGAIN
        return LEAVE if sent["goodbye"] else GOODBYE


# -------------------------------------------------------------------------------------------------- without a terminal

MAX_STOPS = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MAX_LINES = 14
_CHARACTERS_A_TOKEN = 4

WriteText = Callable[[str], object]


def play(options: Options, tour: Tour, write: WriteText) -> int:
    """Play the tour and return the exit code: 0, or 128 plus the number of the signal that ended it."""
    with asyncio.Runner() as runner:
        return runner.run(_until_signal(options, tour, write))


async def _until_signal(options: Options, tour: Tour, write: WriteText) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    came: list[int] = []

    def stop(number: int) -> None:
        came.append(number)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        await _whole_tour(options, tour, write)
    except asyncio.CancelledError:
        if not came:
            raise
        return 128 + came[0]
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return 0


async def _whole_tour(options: Options, tour: Tour, write: WriteText) -> None:
    from agentcli.assemble import build_engine

    for line in tour.welcome[:-1]:
        write(line)
    async with build_engine(options) as engine:
        for _turn in range(MAX_STOPS):
            tour.look(engine)
            stop = tour.next()
            if stop is LEAVE:
                return
            tour.sent(stop.line)
            await _StopPrinter(engine, stop, write).run()


class _StopPrinter:
    def __init__(self, engine: Engine, stop: TourStop, write: WriteText) -> None:
        self._engine = engine
        self._stop = stop
        self._write = write
        self._characters = 0
        self._open = ""
        """Text of the current reply."""

    async def run(self) -> None:
        if self._stop.note:
            self._write(f"\n-- {self._stop.note}")
        self._write(f"\n> {self._stop.line}\n")
        async with aclosing(self._work()) as events:
            async for event in events:
                self._tell(event)

    def _work(self) -> AsyncGenerator[ev.Event, None]:
        from agentcli.commands.line import CommandLine, parse_line, run_command

        line = parse_line(self._stop.line, self._engine)
        if isinstance(line, CommandLine):
            return run_command(self._engine, line.name, line.arguments)
        return self._engine.submit(self._stop.line)

    def _tell(self, event: ev.Event) -> None:
        match event:
            case ev.TextStreamed():
                self._characters += len(event.text)
                self._open += event.text
                if 0 < self._stop.stop_after * _CHARACTERS_A_TOKEN < self._characters:
                    self._engine.abort(AbortReason.USER_CANCEL)
            case ev.BlockFinished(block=TextBlock(text=text)):
                self._write(plain_text(text).rstrip())
                self._open = ""
            case ev.BlockFinished(block=ThinkingBlock(thinking=thinking)):
                self._write(f"(thinks: {plain_line(thinking, 200)})")
            case ev.PermissionRequested():
                self._write(f"  ? {plain_line(event.title, 200)}: allow? yes")
                self._show_diff(event)
                self._engine.answer(event.request_id, Answer("allow"))
            case ev.CompactionProposed():
                before, after = token_count(event.tokens_before), token_count(event.tokens_after)
                self._write(f"  ? {before} tokens become {after}: continue? yes")
                self._engine.answer(event.request_id, Answer("allow"))
            case ev.ToolFinished():
                sign = "!" if event.result.is_error else "+"
                self._write(
                    f"  {sign} {event.name}: {plain_line(event.summary or unwrap_error(event.result.text), 200)}"
                )
            case ev.RetryScheduled():
                from agentcli.interactive.wording import event_line

                self._write(f"  ~ {event_line(event)[0]}")
            case ev.NoticeRaised():
                self._write(f"  {plain_text(event.text)}")
            case ev.Result(is_error=True):
                if self._open:
                    self._write(f"{plain_text(self._open).rstrip()} …")
                self._write(f"  ! {plain_line('; '.join(event.errors) or event.terminal, 300)}")
            case ev.Result() if self._stop.name == "compact":
                self._write(f"  {plain_line(event.text, 300)}")

    def _show_diff(self, event: ev.PermissionRequested) -> None:
        lines = plain_text(str(event.display.get("diff", ""))).splitlines()
        for line in lines[:_MAX_LINES]:
            self._write(f"    {line}")
