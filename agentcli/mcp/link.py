"""State that the parts of one connection share: limits, whether and why it ended, timeouts of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line


@frozen
class ServerLimits:
    start_seconds: float = 30.0
    """From the start of the program or the first request until all lists are complete."""
    call_seconds: float = 600.0
    first_prompt_seconds: float = 10.0
    """How long the first prompt of a non-interactive run waits for connecting servers. The run then continues; tools of
    a server that connects later are added."""
    list_seconds: float = 30.0
    """For one list after a change."""
    restart_seconds: float = 1.0
    """Delay before the first attempt to reconnect; doubles with each further one."""
    restarts: int = 5
    """Maximum consecutive attempts to reconnect."""
    stable_seconds: float = 60.0
    """A connection that lasted this long resets the count of attempts."""
    grace_seconds: float = 2.0
    """For a program to exit after its stdin was closed, and again after SIGTERM."""
    helper_seconds: float = 10.0
    """For the command that prints headers."""
    debounce_seconds: float = 0.1
    """Delay between a list change and its refresh: servers report several changes at once."""
    refresh_seconds: float = 1.0
    """Minimum time between two refreshes of the lists."""
    progress_seconds: float = 1.0
    progress_reports: int = 30
    """Maximum progress reports of a call passed on within `progress_seconds`."""
    message_bytes: int = 64 * 1024 * 1024
    """Maximum size of one line of a program; a longer one disconnects it."""
    result_bytes: int = 16 * 1024 * 1024
    """Maximum size of one message that is read; the call of a larger one fails."""
    inline_bytes: int = 256 * 1024
    """Larger messages are parsed in a thread."""
    unread_bytes: int = 64 * 1024 * 1024
    """Maximum data that a program has not read from its stdin yet."""
    bad_lines: int = 20
    """Maximum consecutive lines that are not protocol messages."""
    pages: int = 100
    """Maximum pages of one list."""
    tools: int = 2000
    """Maximum tools of one server; the same limit applies to resources, templates and prompts."""


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


class CallClock:
    """The time of the calls of one connection, which stands still while the server waits for the user."""

    def __init__(self) -> None:
        self._questions = 0
        self._stood_still = 0.0
        self._stopped_at = 0.0

    def now(self) -> float:
        return (self._stopped_at if self._questions else _loop_time()) - self._stood_still

    @contextmanager
    def stopped(self) -> Generator[None, None, None]:
        """Stop the clock while a question is open."""
        if not self._questions:
            self._stopped_at = _loop_time()
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._stood_still += _loop_time() - self._stopped_at


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


T = TypeVar("T")


async def run_outside_scopes(work: Coroutine[Any, Any, T]) -> T:
    """Await the work in a task outside of the caller's cancel scopes; a cancellation cancels it once and waits for it.

    A cancelled scope cancels its tasks again with every iteration of the event loop, until they have left it. That
    interrupts each step of a cleanup, and keeps the event loop busy while a task waits for a thread or a process.
    """
    import anyio

    task = start_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await cancel_and_wait([task])
        raise
