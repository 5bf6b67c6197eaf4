"""Timeouts of calls that pause while a server waits for the user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager


class CallClock:
    """The timeouts of all calls of one connection."""

    def __init__(self) -> None:
        self._left: dict[asyncio.Timeout, float] = {}
        """Seconds left of each timeout when the clock last stopped, or when the timeout started."""
        self._questions = 0

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncGenerator[None, None]:
        """Like `asyncio.timeout`, not counting the time while questions are open."""
        async with asyncio.timeout(None if self._questions else seconds) as limit:
            self._left[limit] = seconds
            try:
                yield
            finally:
                del self._left[limit]

    @contextmanager
    def stopped(self) -> Generator[None, None, None]:
        """Stop the clock while a question is open."""
        now = asyncio.get_running_loop().time
        self._questions += 1
        if self._questions == 1:
            for limit in self._left:
                if not limit.expired() and (when := limit.when()) is not None:
                    self._left[limit] = when - now()
                    limit.reschedule(None)
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                for limit, seconds in self._left.items():
                    if not limit.expired():
                        limit.reschedule(now() + seconds)
