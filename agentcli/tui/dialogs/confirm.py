"""A yes or no to something that agentcli itself is about to do: what it is, what it costs, Enter does it, Esc does not.

Unlike a question of the model's, leaving it stops no work: it is a no.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.permission import Answer
from agentcli.core.plaintext import plain_line
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.dialogs.subject import paragraph
from agentcli.tui.sheets.choices import Choice
from agentcli.tui.sheets.dialog import RequestDialog
from agentcli.tui.sheets.sheet import Keys


class ConfirmDialog(RequestDialog):
    declined = Answer("deny")

    def keys(self) -> Keys:
        return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", "cancel")]

    def body(self, width: int) -> list[BlockLine]:
        return paragraph(str(self.event.display.get("text", "") or self.event.reason), width, self.palette.text)

    def choices(self) -> Sequence[Choice]:
        yes, no = (plain_line(str(self.event.display.get(name, ""))) for name in ("yes", "no"))
        return [Choice("yes", yes or "Yes", "y"), Choice("no", no or "No", "n")]

    def choose(self, name: str) -> None:
        self.dismiss(Answer("allow" if name == "yes" else "deny"))
