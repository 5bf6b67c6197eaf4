"""Shared state of the parts of one connection: whether it has ended, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from agentcli.core.text.plaintext import plain_line

LinkEnd = Literal["lost", "refused", "expired", "unauthorized"]
"""`lost`: reconnecting may help. `refused`: it will not. `expired`: the server forgot the session. `unauthorized`: the
user has to sign in."""

_LOG_LINE = 500


class ServerLink:
    """End of a connection, with the first reason given, and its last HTTP error."""

    def __init__(self, log: Callable[[str], None] = lambda _line: None) -> None:
        self.ended = asyncio.Event()
        self.stirred = asyncio.Event()
        """Set at the end, and when the server's lists have changed."""
        self.reason = ""
        self.kind: LinkEnd = "lost"
        self.http_status = 0
        self.http_error = ""
        """The last HTTP error status as text, e.g. `HTTP 503 Service Unavailable`."""
        self._log = log

    @property
    def is_temporary(self) -> bool:
        """Whether the last HTTP error may be temporary."""
        return self.http_status == 429 or self.http_status >= 500

    def end(self, reason: str, kind: LinkEnd = "lost") -> None:
        if not self.ended.is_set():
            self.reason, self.kind = plain_line(reason, _LOG_LINE), kind
            self.ended.set()
            self.stirred.set()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end, at most `seconds`; return whether it came."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            return False
        return True

    def note(self, line: str) -> None:
        """Add a line to the server's log, as plain text."""
        if line := plain_line(line, _LOG_LINE):
            self._log(line)
