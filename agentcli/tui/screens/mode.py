"""Picker for the permission mode."""

from __future__ import annotations

from agentcli.core.permission import PermissionMode
from agentcli.tui.modes import MODE_WORDS
from agentcli.tui.screens.model import IN_FORCE
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.text import Runs, wrapped

_WARNING = (
    "! Commands and edits run without review, even those that a file or a web page tricked the model into. "
    "Use it only on a disposable machine."
)


class ModePicker(Picker[PermissionMode]):
    def __init__(self, current: PermissionMode) -> None:
        rows = [
            Row(mode, words.label, words.meaning, IN_FORCE if mode is current else "")
            for mode, words in ((PermissionMode(name), words) for name, words in MODE_WORDS.items())
        ]
        super().__init__("Permission mode", rows, start=current)

    def about(self, row: Row[PermissionMode] | None, width: int) -> list[Runs]:
        if row is not None and row.value is PermissionMode.BYPASS:
            return wrapped([(_WARNING, self.palette.warning)], width, 3)
        name = f"In settings: {row.value.value}. " if row is not None else ""
        if row is not None and row.value is PermissionMode.AUTO:
            said = f"{name}Commands have no network; anything more needs approval."
            return wrapped([(said, self.palette.muted)], width, 2)
        said = f"{name}Shift+Tab at the prompt cycles through the modes."
        return wrapped([(said, self.palette.muted)], width, 2)
