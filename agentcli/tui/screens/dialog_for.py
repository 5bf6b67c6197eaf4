"""Choose the dialog for a question of the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentcli.core.events import CompactionProposed, PermissionRequested
from agentcli.core.permission import Answer
from agentcli.tui.screens.compact_preview import CompactPreview
from agentcli.tui.screens.confirm import ConfirmDialog, UndoChoice
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.permission import PermissionDialog
from agentcli.tui.screens.plan import PlanDialog
from agentcli.tui.screens.questions import QuestionsDialog
from agentcli.tui.screens.server_form import ServerFormDialog
from agentcli.tui.screens.server_requests import SamplingDialog, ServerAddressDialog

_BY_KIND: dict[object, Callable[[PermissionRequested], Dialog[Answer | None]]] = {
    "plan": PlanDialog,
    "questions": QuestionsDialog,
    "confirm": ConfirmDialog,
    "undo": UndoChoice,
    "mcp_form": ServerFormDialog,
    "mcp_url": ServerAddressDialog,
    "mcp_sampling": SamplingDialog,
}
"""Dialog by the `kind` of the question's display; any other question asks for permission."""


def dialog_for(
    event: PermissionRequested | CompactionProposed, waiting: int, cwd: Path | None
) -> Dialog[Answer | None]:
    """`waiting`: number of further questions after this one. `cwd`: base of relative paths in the call."""
    if isinstance(event, CompactionProposed):
        return CompactPreview(event)
    make = _BY_KIND.get(event.display.get("kind"))
    return make(event) if make is not None else PermissionDialog(event, waiting, cwd)
