"""What a command can ask of the front end that it runs in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.config.trust import TrustState


class Unavailable(AgentError):
    """This front end cannot do it. The text says what to do instead."""


@frozen
class Choice:
    """A row of a list to choose from. Its text is safe to show."""

    value: str
    label: str
    detail: str = ""


class FrontEnd(Protocol):
    """Methods raise `AgentError` with a sentence for the user; those that a front end does not have, `Unavailable`."""

    instead: str = "Start agentcli in a terminal to use it."
    """What to do where something is not available."""
    has_pages: bool = False
    """Whether `page` shows what commands print as text elsewhere."""
    keys: str = ""
    """The keys of the prompt, for a `/help` without a page."""

    async def options(self) -> Options:
        """What the program was started with. An app that is still starting waits until its flags are checked."""
        raise Unavailable(self.instead)

    async def page(self, kind: str, *data: Any) -> Any:
        """Open a page; returns what the user picked there, or None."""
        raise Unavailable(self.instead)

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        """Let the user pick from a list; returns a value, or None."""
        raise Unavailable(self.instead)

    def send(self, line: str) -> None:
        """Send a line as if the user had typed it."""
        raise Unavailable(self.instead)

    def prefill(self, text: str) -> None:
        """Put a text into the prompt."""
        raise Unavailable(self.instead)

    def hint(self, text: str) -> None:
        """Show a short confirmation that the session does not record."""
        raise Unavailable(self.instead)

    async def copy(self, text: str) -> str:
        """Put a text on the clipboard; returns a sentence about the outcome."""
        raise Unavailable(self.instead)

    async def edit(self, text: str) -> str:
        """Open a text in the user's editor; returns the new text."""
        raise Unavailable(self.instead)

    async def open_session(self, resume: str | None = None) -> None:
        """Replace the session by the one that `resume` names, or by a new one."""
        raise Unavailable(self.instead)

    async def connect(self) -> None:
        """Ask the user how to reach a model."""
        raise Unavailable(self.instead)

    async def disconnect(self) -> str:
        """Delete the stored key; returns a sentence about the outcome."""
        raise Unavailable(self.instead)

    async def review_trust(self, state: TrustState) -> bool:
        """Show everything that the project would make agentcli run or allow; whether the user trusts it."""
        raise Unavailable("Use `agentcli trust`.")

    async def save_setting(self, name: str, value: Any, scope: str = "user") -> str:
        """Save a setting and return where; a theme is also used at once."""
        raise Unavailable(self.instead)

    def themes(self) -> list[tuple[str, str]]:
        """Names and descriptions of the themes."""
        return []

    def leave(self) -> None:
        """End the program."""
        raise Unavailable(self.instead)


class NoFrontEnd(FrontEnd):
    """For runs without a user."""

    instead = "Start agentcli without -p to use it."
