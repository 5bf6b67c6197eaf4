"""Names and descriptions of the permission modes on the screen."""

from __future__ import annotations

from collections.abc import Mapping

from agentcli.core.frozen import frozen
from agentcli.core.permission import PermissionMode


@frozen
class ModeWords:
    label: str
    short: str
    meaning: str
    status: str = ""
    """Longer text for the status line if there is room: what the mode relies on."""


MODE_WORDS: Mapping[str, ModeWords] = {
    PermissionMode.DEFAULT.value: ModeWords("default mode", "default", "asks before anything that no rule allows"),
    PermissionMode.ACCEPT_EDITS.value: ModeWords(
        PermissionMode.ACCEPT_EDITS.label, "edits", "allows edits in the working directories"
    ),
    PermissionMode.AUTO.value: ModeWords(
        "auto mode", "auto", "allows edits and sandboxed commands without network", "auto · sandboxed, no network"
    ),
    PermissionMode.PLAN.value: ModeWords("plan mode", "plan", "changes nothing until you approve a plan"),
    PermissionMode.DONT_ASK.value: ModeWords(
        PermissionMode.DONT_ASK.label, "no ask", "denies what would need approval"
    ),
    PermissionMode.BYPASS.value: ModeWords(
        f"! {PermissionMode.BYPASS.label}", "! bypass", "dangerous: allows almost everything"
    ),
}
