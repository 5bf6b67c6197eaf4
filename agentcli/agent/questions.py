"""Permission questions that wait for an answer: events go out, answers come in as calls."""

from __future__ import annotations

import asyncio
from enum import Enum

from agentcli.core.permission import Answer


class Audience(Enum):
    """Whether anybody is there to answer."""

    SOMEBODY = "somebody"
    NOBODY = "nobody"


class Questions:
    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self._open: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, request_id: str) -> asyncio.Future[Answer]:
        """A future for the answer. Register before the question is shown, or a fast answer is lost."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request_id] = future
        return future

    def withdraw(self, request_id: str) -> None:
        future = self._open.pop(request_id, None)
        if future is not None and not future.done():
            future.cancel()

    def answer(self, request_id: str, answer: Answer) -> bool:
        """False when nobody asked, or the question has been answered or withdrawn."""
        future = self._open.pop(request_id, None)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True

    @property
    def open_ids(self) -> tuple[str, ...]:
        return tuple(self._open)
