"""The interface of output formats, and the two JSON formats; `text.py` has the third.

Standard output gets only the answer; notices go to standard error.
"""

from __future__ import annotations

from typing import Protocol

from agentcli.core.events import Event, Result
from agentcli.core.frozen import frozen
from agentcli.core.ids import Ids
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, terminal_line
from agentcli.headless.encode import encode_line, encode_whole
from agentcli.headless.notices import is_shown, notice
from agentcli.headless.result_frame import failure_frame, result_frame
from agentcli.headless.stream_json import Frames
from agentcli.headless.streams import StreamWriter, complain, is_terminal

_LONGEST_LINE = 2000


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
        complain(self.stderr, f"agentcli: {plain_line(text, _LONGEST_LINE)}")

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
