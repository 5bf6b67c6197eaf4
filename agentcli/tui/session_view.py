"""What the session needs of a screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from agentcli.core import events as ev
from agentcli.tui.model import Activity, Facts, Operation

if TYPE_CHECKING:
    from agentcli.interactive.draft import Draft

Question = ev.PermissionRequested | ev.CompactionProposed
"""What waits for the person's answer."""


class View(Protocol):
    """What the session needs of a screen. Every call is cheap and returns at once."""

    def apply(self, operations: Iterable[Operation]) -> None: ...

    def show_activity(self, activity: Activity) -> None: ...

    def show_facts(self, facts: Facts) -> None: ...

    def show_queued(self, texts: list[str]) -> None: ...

    def ask(self, event: Question, waiting: int) -> None:
        """Show a question; its answer comes in through `Session.answer`."""
        ...

    def show_waiting(self, count: int) -> None:
        """So many questions wait behind the one that is open."""
        ...

    def withdraw(self, request_id: str) -> None:
        """The question is settled or void: close its dialog if it is open."""
        ...

    def give_back(self, drafts: list[Draft]) -> None:
        """Prompts that were not sent go back into the box."""
        ...

    def finished(self, result: ev.Result) -> None: ...
