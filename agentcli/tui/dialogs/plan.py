"""The dialog that shows a plan for approval. The person may change the plan first; what they approve is what counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.dialogs.subject import markdown_lines
from agentcli.tui.sheets.choices import Choice
from agentcli.tui.sheets.editable import EditablePanel
from agentcli.tui.sheets.panel import PAINTED
from agentcli.tui.theme.palette import Palette


class PlanDialog(EditablePanel):
    def __init__(
        self,
        event: PermissionRequested,
        palette: Palette,
        *,
        clock: Callable[[], float] = time.monotonic,
        typed: Callable[[], float] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        plan = str(event.input.get("plan", ""))
        super().__init__(plan, palette, clock=clock, typed=typed, environ=environ, cwd=cwd)
        self.event = event
        self._wishes = ""

    @property
    def question(self) -> str:
        return "Edit the plan" if self.editing else "Go ahead with this plan?"

    @property
    def hints(self) -> str:
        if self.editing:
            return "Esc back to the choices · Ctrl+G your own editor"
        return "Enter confirms · Esc stops the work · ↑↓ or a number choose · Ctrl+G your own editor"

    @property
    def size_of_body(self) -> int:
        return PAINTED * len(self.text)

    def body(self, width: int) -> list[Line]:
        if not self.text.strip():
            return wrap([("The plan is empty.", self.palette.warning)], width)
        return markdown_lines(self.text, width, self.palette)

    def choices(self) -> Sequence[Choice]:
        empty = "" if self.text.strip() else "the plan is empty"
        found = [
            Choice("edits", "Yes, and accept edits by themselves", "a", "Yes, accept edits", refused=empty),
            Choice("ask", "Yes, and ask before each edit", "y", "Yes, ask for edits", refused=empty),
            Choice("edit", "Edit the plan", "e"),
            Choice("keep", "No, keep planning: say what to change", "n", "No, keep planning"),
        ]
        return [*found, Choice("original", "Take back your edits", "u")] if self.edited else found

    def choose(self, name: str) -> None:
        match name:
            case "edits":
                self.dismiss(Answer("allow", updated_input=self._input(), mode=PermissionMode.ACCEPT_EDITS))
            case "ask":
                self.dismiss(Answer("allow", updated_input=self._input(), mode=PermissionMode.DEFAULT))
            case "edit":
                self.edit()
            case "original":
                self.take_back_edits()
            case "keep":
                self.ask("What should the plan be like instead?", self._wishes, "empty: just no")

    def changed(self) -> None:
        self.index = 1 if self.text.strip() else 2

    def entered(self, text: str) -> None:
        self.dismiss(Answer("deny", message=text.strip()))

    def left(self, text: str) -> None:
        self._wishes = text

    def _input(self) -> Json | None:
        return {**self.event.input, "plan": self.text} if self.edited else None
