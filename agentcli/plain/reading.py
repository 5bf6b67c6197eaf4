"""Protocols between a session and the keyboard, independent of the kind of prompt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Stopped(Exception):
    """Ctrl+C at the empty prompt."""


class Left(Exception):
    """Ctrl+D at the empty prompt, or the terminal was closed."""


class Listener(Protocol):
    """Receives keys during work."""

    def interrupt(self) -> None:
        """Esc or Ctrl+C."""

    def line(self, text: str) -> None:
        """A line was typed and sent."""

    def to_background(self) -> None:
        """Ctrl+B."""


class Reader(Protocol):
    async def prompt(self, draft: str = "") -> str:
        """Read the user's next prompt; `draft` is its initial text. Raises `Stopped`, `Left`."""

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """Ask for one line; None: Esc or Ctrl+C. `hidden`: without echo. Raises `Left`."""

    def working(self, listener: Listener) -> AbstractContextManager[None]:
        """Send keys to the listener and keep typed text for the next prompt. `ask` may be used meanwhile."""

    def take_typed(self) -> str:
        """Return and forget the text that was typed during work and not sent."""

    async def above(self, write: Callable[[], None]) -> None:
        """Call `write`, whose output goes above the open prompt."""

    def signalled(self) -> None:
        """Treat a SIGINT like Ctrl+C."""

    async def edit(self, text: str) -> str:
        """Edit a text in the user's own editor. Raises `AgentError` with the reason if that is not possible."""
