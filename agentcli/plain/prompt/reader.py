"""The interface to the prompt of plain mode, implemented by `PromptReader` and `LineReader`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class PromptCancelled(Exception):
    """Ctrl+C at the empty prompt."""


class QuitRequested(Exception):
    """The user quits: Ctrl+D at the empty prompt, or `/exit`; or the terminal is gone."""


class Listener(Protocol):
    """Receives keys and lines while a submission runs."""

    def interrupt(self) -> None:
        """Esc or Ctrl+C was pressed."""

    def line(self, text: str) -> None:
        """A line was typed and sent with Enter."""

    def to_background(self) -> None:
        """Ctrl+B was pressed."""


class Reader(Protocol):
    """Reads prompts and answers from the terminal."""

    async def prompt(self, draft: str = "") -> str:
        """Read a prompt; `draft` is its initial text. Raises `PromptCancelled`, `QuitRequested`."""

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """Read one line in answer to a question; None: Esc or Ctrl+C. `hidden`: not echoed. Raises `QuitRequested`."""

    def working(self, listener: Listener) -> AbstractContextManager[None]:
        """Send keys to the listener, and keep typed text for the next prompt. `ask` may be used meanwhile."""

    def take_typed(self) -> str:
        """Take the text that was typed during `working` and not sent."""

    async def above(self, write: Callable[[], None]) -> None:
        """Call `write`, which prints, without damaging an open prompt."""

    def signalled(self) -> None:
        """Handle SIGINT as Ctrl+C."""

    async def edit(self, text: str) -> str:
        """Let the user change a text in their editor. Raises `AgentError` if that is impossible."""
