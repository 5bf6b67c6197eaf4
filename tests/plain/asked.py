"""A reader whose answers are written down beforehand, and what was printed around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from agentcli.plain.line_reader import QuitRequested
from agentcli.plain.pieces import Piece
from agentcli.plain.writer import BareWriter, Writer

ESC = "\x1b"
FOREVER = "(never)"


class Paper:
    """Stands in for a session that asks: everything shown, every question, and the answers given in turn."""

    def __init__(self, *answers: str, edited: str | Exception = "") -> None:
        self.text = ""
        self._answers = list(answers)
        self._edited = edited
        self._writer: Writer = BareWriter(self._add)

    def _add(self, text: str) -> None:
        self.text += text

    def write(self, pieces: Iterable[Piece]) -> None:
        self._writer.write(pieces)

    async def read(self, question: str) -> str | None:
        answer = self._answers.pop(0)
        self.text += f"{question}{answer}\n"
        return None if answer == ESC else answer

    async def edit(self, text: str) -> str:
        if isinstance(self._edited, Exception):
            raise self._edited
        return self._edited


class ScriptedReader:
    """Implements `Reader`. Keys during the work are pressed by calling `listener`."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.listener: Any | None = None
        self.typed = ""
        self.above_prompt = 0

    async def prompt(self, draft: str = "") -> str:
        raise QuitRequested

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        self.questions.append(question)
        answer = self.answers.pop(0) if self.answers else FOREVER
        if answer == FOREVER:
            await asyncio.get_running_loop().create_future()
        return None if answer == ESC else answer

    @contextmanager
    def working(self, listener: Any) -> Iterator[None]:
        self.listener = listener
        try:
            yield
        finally:
            self.listener = None

    def take_typed(self) -> str:
        typed, self.typed = self.typed, ""
        return typed

    async def above(self, write: Callable[[], None]) -> None:
        self.above_prompt += 1
        write()

    def signalled(self) -> None:
        if self.listener is not None:
            self.listener.interrupt()

    async def edit(self, text: str) -> str:
        return text
