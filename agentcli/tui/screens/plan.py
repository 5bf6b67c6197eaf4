"""Dialog that shows a plan for approval. The user may edit the plan first; the edited version is the approved one."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.events import PermissionRequested
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.modes import modes_after_plan
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.editable import EDITING_KEYS, EditableDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import markdown_lines

_YES = "yes "
_KEYS = {None: "y", PermissionMode.ACCEPT_EDITS: "a", PermissionMode.DEFAULT: "d"}


class PlanDialog(EditableDialog):
    def __init__(self, event: PermissionRequested) -> None:
        super().__init__(str(event.input.get("plan", "")))
        self.event = event
        self._wishes = ""
        self._modes = modes_after_plan(event)

    @property
    def question(self) -> str:
        return "Edit the plan" if self.editing else "Go ahead with this plan?"

    def keys(self) -> Keys:
        if self.editing:
            return EDITING_KEYS
        own = ("Ctrl+G", "your own editor")
        return [own, ("↑↓ or a number", "choose"), ("Enter", "confirm"), ("Esc", "stop the work")]

    def body(self, width: int) -> list[BlockLine]:
        if not self.text.strip():
            return wrap([("The plan is empty.", self.palette.warning)], width)
        return markdown_lines(self.text, width, self.palette)

    def choices(self) -> Sequence[SheetChoice]:
        empty = "" if self.text.strip() else "the plan is empty"
        found = [
            SheetChoice(f"{_YES}{number}", f"Yes, and {words}", _KEYS.get(mode, ""), f"Yes, {words}", refused=empty)
            for number, (mode, words) in enumerate(self._modes)
        ]
        found += [
            SheetChoice("edit", "Edit the plan", "e"),
            SheetChoice("keep", "No, keep planning: say what to change", "n", "No, keep planning"),
        ]
        return [*found, SheetChoice("original", "Discard your edits", "u")] if self.edited else found

    def choose(self, name: str) -> None:
        match name:
            case "edit":
                self.edit()
            case "original":
                self.take_back_edits()
            case "keep":
                self.ask("What should change in the plan?", self._wishes, "empty: keep planning")
            case _:
                mode, _words = self._modes[int(name.removeprefix(_YES))]
                self.dismiss(Answer("allow", updated_input=self._input(), mode=mode))

    def changed(self) -> None:
        self.index = 0 if self.text.strip() else len(self._modes)

    def entered(self, text: str) -> None:
        self.dismiss(Answer("deny", message=text.strip()))

    def left(self, text: str) -> None:
        self._wishes = text

    def _input(self) -> Json | None:
        return {**self.event.input, "plan": self.text} if self.edited else None
