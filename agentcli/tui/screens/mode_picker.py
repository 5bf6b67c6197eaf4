"""Choosing the permission mode."""

from __future__ import annotations

from agentcli.core.permission import PermissionMode
from agentcli.tui.palette import Palette
from agentcli.tui.screens.model_picker import IN_FORCE
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.rows import Row
from agentcli.tui.screens.runs import Runs, wrapped

_MEANS = {
    PermissionMode.DEFAULT: "asks before it changes or runs what no rule allows",
    PermissionMode.ACCEPT_EDITS: "edits files in the project without asking",
    PermissionMode.PLAN: "reads only, until you have approved a plan",
    PermissionMode.DONT_ASK: "refuses what it would have to ask about",
    PermissionMode.BYPASS: "⚠ dangerous: runs everything without asking",
}
_WARNING = (
    "! Commands and edits run unseen, also those that a file or a web page talked the model into. "
    "Only for a machine that you can throw away."
)


class ModePicker(Picker[PermissionMode]):
    def __init__(self, current: PermissionMode, palette: Palette | None = None) -> None:
        rows = [Row(mode, mode.value, meaning, IN_FORCE if mode is current else "") for mode, meaning in _MEANS.items()]
        super().__init__("Permission mode", rows, palette, start=current)

    def about(self, row: Row[PermissionMode] | None, width: int) -> list[Runs]:
        if row is not None and row.value is PermissionMode.BYPASS:
            return wrapped([(_WARNING, self.palette.warning)], width, 3)
        return wrapped([("Shift+Tab in the prompt goes through the modes too.", self.palette.muted)], width, 2)
