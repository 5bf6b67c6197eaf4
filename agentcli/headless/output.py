"""Output formats of a run: text, json and stream-json, and the debug log.

Standard output gets only the answer; notices go to standard error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agentcli.core.errors import UsageError
from agentcli.core.event_base import event_to_dict
from agentcli.core.events import Event, Result
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import json_for_terminal, plain_line, plain_text, spell_hidden, terminal_line
from agentcli.headless.encode import encode_line, encode_whole
from agentcli.headless.notices import is_shown, notice, summarize_ended
from agentcli.headless.stream_json import Frames, failure_frame, result_frame
from agentcli.headless.streams import StreamWriter, complain, is_terminal
from agentcli.interactive.wording import ABORTED

_MAX_LINE = 2000


class EventOutput(Protocol):
    async def show(self, event: Event) -> None:
        """Show an event. Raises `OutputLost`."""
        ...

    async def fail(self, message: str) -> None:
        """Report that the run ended outside any submission; the message is on standard error already. Raises
        `OutputLost`."""
        ...


@frozen
class Notices:
    """Lines for the user on standard error."""

    stderr: int
    verbose: bool = False

    def show(self, event: Event) -> None:
        if is_shown(event, "verbose" if self.verbose else "terminal" if is_terminal(self.stderr) else "always"):
            self.say(notice(event))

    def say(self, text: str) -> None:
        """Print one line, cleaned, because the text may come from a server."""
        complain(self.stderr, f"agentcli: {plain_line(text, _MAX_LINE)}")

    def say_verbatim(self, text: str) -> None:
        """Print one unchanged line of trusted text, e.g. with a command to copy."""
        complain(self.stderr, f"agentcli: {terminal_line(text)}")


class JsonOutput:
    """--output-format json: one result object on standard output."""

    def __init__(self, writer: StreamWriter, notices: Notices, ids: Ids) -> None:
        self._writer = writer
        self._notices = notices
        self._ids = ids

    async def show(self, event: Event) -> None:
        if isinstance(event, Result):
            await self._writer.write(encode_whole(result_frame(event)))
        else:
            self._notices.show(event)

    async def fail(self, message: str) -> None:
        await self._writer.write(encode_whole(failure_frame(message, "", self._ids.new())))


class StreamJsonOutput:
    def __init__(self, writer: StreamWriter, ids: Ids, replay: bool = False, hooks: bool = False) -> None:
        self._writer = writer
        self._ids = ids
        self._frames = Frames(ids, replay, hooks)

    async def show(self, event: Event) -> None:
        for frame in self._frames.frames(event):
            await self.send(frame)

    async def send(self, frame: Json) -> None:
        await self._writer.write(encode_line(frame))

    async def fail(self, message: str) -> None:
        await self.send(failure_frame(message, self._frames.session_id, self._ids.new()))


class TextOutput:
    def __init__(self, writer: StreamWriter, notices: Notices, to_terminal: bool) -> None:
        self._writer = writer
        self._notices = notices
        self._to_terminal = to_terminal

    async def show(self, event: Event) -> None:
        if not isinstance(event, Result):
            self._notices.show(event)
            return
        text = _answer(event, self._to_terminal)
        if text:
            await self._writer.write(f"{text}\n".encode(errors="replace"))
        if ended := [task for task in event.background_tasks if task["status"] == "stopped"]:
            self._notices.say(summarize_ended(ended))
        if event.terminal in ABORTED:
            self._notices.say("Stopped before the answer was complete. agentcli -p -c 'PROMPT' continues from here.")
        elif event.is_error:
            for error in event.errors:
                self._notices.say(error)

    async def fail(self, message: str) -> None:
        """Do nothing: the message is already on standard error."""


def _answer(result: Result, to_terminal: bool) -> str:
    """The answer without control sequences, also for a pipe, whose output often ends up on a terminal. JSON formats
    have it unchanged. Hidden characters are kept in a pipe, where the text may be data."""
    if result.structured_output is not None:
        return json_for_terminal(json.dumps(result.structured_output, ensure_ascii=False, indent=2))
    text = plain_text(result.text).rstrip("\n")
    return spell_hidden(text) if to_terminal else text


class DebugLog:
    """Writes events as JSON lines. `filter`: parts of event names, separated by commas; a leading ! excludes events."""

    def __init__(self, write: Callable[[bytes], object], filter: str, clock: Clock) -> None:
        names = [name.strip().casefold() for name in filter.split(",") if name.strip()]
        self._wanted = [name for name in names if not name.startswith("!")]
        self._unwanted = [name[1:] for name in names if name.startswith("!")]
        self._write = write
        self._clock = clock
        self._start = clock.monotonic()

    def show(self, event: Event) -> None:
        name = type(event).__name__.casefold()
        if any(part in name for part in self._unwanted):
            return
        if self._wanted and not any(part in name for part in self._wanted):
            return
        line = encode_line({"t": round(self._clock.monotonic() - self._start, 4), **event_to_dict(event)})
        try:
            self._write(line)
        except OSError:
            # Diagnostics never stop a run.
            return


def open_debug_log(filter: str | None, file: Path | None, stderr: int, clock: Clock) -> DebugLog | None:
    """Open the log that the flags ask for, if any. Raises `UsageError` if the file cannot be written."""
    if file is not None:
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"--debug-file: cannot write {file} ({error.strerror}). Check the path.") from None
        # Open until the process ends: the last event may come at the very end.
        return DebugLog(lambda line: os.write(descriptor, line), filter or "", clock)
    if filter is not None:
        return DebugLog(lambda line: os.write(stderr, line), filter, clock)
    return None
