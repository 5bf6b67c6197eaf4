"""What the session needs of a keyboard, whichever kind of prompt there is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Stopped(Exception):
    """Ctrl+C at the empty prompt."""


class Left(Exception):
    """Ctrl+D at the empty prompt, or the terminal is gone."""


class Listener(Protocol):
    """Who hears of keys while work goes on."""

    def interrupt(self) -> None:
        """Esc or Ctrl+C."""

    def line(self, text: str) -> None:
        """Something was typed and sent."""

    def to_background(self) -> None:
        """Ctrl+B."""


class Reader(Protocol):
    async def prompt(self, draft: str = "") -> str:
        """The next thing that the person sends; `draft` is what stands there already. Raises `Stopped`, `Left`."""

    async def ask(self, question: str, *, hidden: bool = False) -> str | None:
        """One line in answer to a question; None: Esc or Ctrl+C. `hidden`: not echoed. Raises `Left`."""

    def working(self, listener: Listener) -> AbstractContextManager[None]:
        """Keys go to the listener, and what is typed is kept for the next prompt. `ask` may be used meanwhile."""

    def take_typed(self) -> str:
        """What was typed while work went on and was not sent."""

    async def above(self, write: Callable[[], None]) -> None:
        """Print something while the prompt is open."""

    def signalled(self) -> None:
        """SIGINT: as Ctrl+C."""

    async def edit(self, text: str) -> str:
        """A text in the person's own editor. Raises `AgentError` with the reason when there is none."""
