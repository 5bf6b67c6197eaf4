"""A yes or no to something that agentcli itself is about to do: what it is, what it costs, Enter does it, Esc does not.

Unlike a question of the model's, leaving it stops no work: it is a no.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer
from agentcli.core.plaintext import plain_line
from agentcli.tui.blocks.base import Line
from agentcli.tui.dialogs.subject import one_line, paragraph
from agentcli.tui.sheets.choices import Choice
from agentcli.tui.sheets.panel import Panel
from agentcli.tui.theme.palette import Palette


class ConfirmDialog(Panel[Answer | None]):
    def __init__(
        self,
        event: PermissionRequested,
        palette: Palette,
        *,
        clock: Callable[[], float] = time.monotonic,
        typed: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(palette, clock=clock, typed=typed)
        self.event = event

    @property
    def question(self) -> str:
        return one_line(self.event.title)

    @property
    def hints(self) -> str:
        return "Enter confirms · Esc leaves it · ↑↓ choose"

    def body(self, width: int) -> list[Line]:
        return paragraph(str(self.event.display.get("text", "") or self.event.reason), width, self.palette.text)

    def choices(self) -> Sequence[Choice]:
        yes, no = (plain_line(str(self.event.display.get(name, ""))) for name in ("yes", "no"))
        return [Choice("yes", yes or "Yes", "y"), Choice("no", no or "No", "n")]

    def choose(self, name: str) -> None:
        self.dismiss(Answer("allow" if name == "yes" else "deny"))

    def back(self) -> None:
        self.dismiss(Answer("deny"))

    def leave(self) -> None:
        self.dismiss(Answer("deny"))
