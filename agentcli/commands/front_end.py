"""The protocol between slash commands and the front end in which they run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.config.trust import TrustState
    from agentcli.core.events import Event
    from agentcli.session.base import Rewind


BUSY = "Something is still running. Stop it with Esc, then try again."


class Unavailable(AgentError):
    """Raised if the front end lacks a feature. The text says what to do instead."""


@frozen
class Choice:
    """A row of a selection list. Its text is safe to show."""

    value: str
    label: str
    detail: str = ""


class FrontEnd(Protocol):
    """Methods raise `AgentError` with a sentence for the user, or `Unavailable` if the front end lacks the feature."""

    instead: str = "Start agentcli in a terminal to use it."
    """Text of `Unavailable`: what to do instead."""
    has_pages: bool = False
    """Whether the front end has pages; otherwise commands print text."""
    keys: str = ""
    """List of the prompt's keys, for a `/help` without a page."""

    async def options(self) -> Options:
        """Options of this run. While the app is starting, waits until its flags are checked."""
        raise Unavailable(self.instead)

    async def page(self, kind: str, *data: Any) -> Any:
        """Open a page; returns the user's choice there, or None."""
        raise Unavailable(self.instead)

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        """Let the user pick from a list; returns a value, or None."""
        raise Unavailable(self.instead)

    def send(self, line: str) -> None:
        """Send a line as if the user had typed it."""
        raise Unavailable(self.instead)

    async def perform(self, work: AsyncGenerator[Event, None]) -> None:
        """Run work of a command as a submission, with its events in the transcript, and wait for its end. Esc stops
        it: the work sees that in the signal of the session."""
        raise Unavailable(self.instead)

    def prefill(self, text: str) -> None:
        """Put text into the prompt."""
        raise Unavailable(self.instead)

    def hint(self, text: str) -> None:
        """Show a short confirmation that the session does not record."""
        raise Unavailable(self.instead)

    async def copy(self, text: str) -> str:
        """Copy text to the clipboard; returns a sentence about the outcome."""
        raise Unavailable(self.instead)

    async def edit(self, text: str) -> str:
        """Open a text in the user's editor; returns the new text."""
        raise Unavailable(self.instead)

    async def open_session(self, resume: str | None = None, rewind: Rewind | None = None) -> None:
        """Replace the session by the one that `resume` names, or by a new one. `rewind`: where that one continues; it
        may be the session that is open."""
        raise Unavailable(self.instead)

    async def connect(self) -> None:
        """Ask the user how to reach a model."""
        raise Unavailable(self.instead)

    async def disconnect(self) -> str:
        """Delete the stored key; returns a sentence about the outcome."""
        raise Unavailable(self.instead)

    async def review_trust(self, state: TrustState) -> bool:
        """Show everything that the project would make agentcli run or allow; returns whether the user trusts it."""
        raise Unavailable("Use `agentcli trust`.")

    async def save_setting(self, name: str, value: Any, scope: str = "user") -> str:
        """Save a setting and return the file; a theme is also applied at once."""
        raise Unavailable(self.instead)

    def themes(self) -> list[tuple[str, str]]:
        """Names and descriptions of the themes."""
        return []

    def leave(self) -> None:
        """End the program."""
        raise Unavailable(self.instead)


class NoFrontEnd(FrontEnd):
    """The front end of non-interactive runs."""

    instead = "Start agentcli without -p to use it."
