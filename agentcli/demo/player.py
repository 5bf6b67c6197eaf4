"""Play the tour without a terminal: the same engine, tools, questions and replies, printed as lines of text."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentcli.commands.line import CommandLine, parse_line, run_command
from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.messages import TextBlock, ThinkingBlock
from agentcli.core.permission import Answer
from agentcli.core.text.format import token_count
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.core.tool_errors import unwrapped
from agentcli.demo.tour import LEAVE, Tour, TourStop
from agentcli.interactive.wording import event_line

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options

MOST_STOPS = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOWN_LINES = 14
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
        for _turn in range(MOST_STOPS):
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
                self._write(f"  {sign} {event.name}: {plain_line(event.summary or unwrapped(event.result.text), 200)}")
            case ev.RetryScheduled():
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
        for line in lines[:_SHOWN_LINES]:
            self._write(f"    {line}")
