"""What the session driver asks of a front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.interactive.drafts import Draft

Question = ev.PermissionRequested | ev.CompactionProposed
"""An event that waits for the user's answer."""


@frozen
class Sent:
    """A draft that is shown as sent but has not started."""

    draft: Draft
    id: str
    """Id returned by `View.show_sent`."""


class View:
    """A front end as the driver uses it. Every call is cheap and returns at once. Methods that a front end has no use
    for do nothing."""

    def show_opened(self, engine: Engine) -> None:
        """Show the conversation that this engine holds."""

    def clear(self) -> None:
        """Remove everything shown: another conversation follows."""

    def show_sent(self, draft: Draft) -> str:
        """Show a prompt, command or shell line as sent; the returned id is for `remove_sent`."""
        return ""

    def remove_sent(self, sent: Sequence[Sent]) -> None:
        """Remove drafts that were shown as sent and will not start."""

    def show_started(self) -> None:
        """A submission starts."""

    def show(self, event: ev.Event) -> None:
        """Show an event of a submission or of background work."""

    def show_concurrent(self, event: ev.Event) -> None:
        """Show an event of work beside the submission: a line that the user entered, or output of their shell line."""

    def note(self, text: str, level: str = "info") -> None:
        """Show a line of the front end itself."""

    def show_interrupted(self, steering: bool) -> None:
        """The submission was asked to stop. `steering`: another prompt takes its place."""

    def show_settled(self) -> None:
        """The submission has ended, with or without a `Result`."""

    def show_queued(self, texts: list[str]) -> None:
        """Show the texts of all waiting prompts."""

    def take_due(self, draft: Draft) -> bool:
        """Take over a queued draft whose turn it is; False: the driver starts it."""
        return False

    def give_back(self, drafts: list[Draft]) -> None:
        """Put drafts that were not sent back into the prompt."""

    def ask(self, event: Question, waiting: int) -> None:
        """Ask a question; the answer goes to `SessionDriver.answer`. `waiting`: how many more there are."""

    def show_waiting(self, count: int) -> None:
        """The number of questions behind the open one has changed."""

    def withdraw(self, request_id: str) -> None:
        """Close this question if it is open: it no longer needs an answer."""

    def apply_settings(self) -> None:
        """Settings have changed; use those of the front end itself that can change now."""

    def refresh_commands(self) -> None:
        """Slash commands were added or removed."""

    def refresh_status(self) -> None:
        """The engine's settings or background commands may have changed."""
