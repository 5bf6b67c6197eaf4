"""A session at work on virtual time, for the tests of every front end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from agentcli.interactive.drafts import Draft
from tests.support.fakes import Bench


class SessionDesk:
    bench: Bench
    session: Any
    """A session driver, or what has its methods."""

    async def __aenter__(self) -> Self:
        self.session.open(self.bench.engine)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.session.close()

    def seen(self) -> object:
        """What the user has seen so far."""
        raise NotImplementedError

    def send(self, text: str, at_once: bool = False) -> None:
        self.session.send(Draft(text), at_once)

    async def until(self, holds: Callable[[], object]) -> None:
        for _step in range(10_000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"never: {self.seen()}")

    async def idle(self) -> None:
        await self.until(lambda: not self.session.busy)
