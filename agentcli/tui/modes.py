"""What the permission modes are called on the screen, in one place: each has one name, and one sentence about it."""

from __future__ import annotations

from collections.abc import Mapping

from agentcli.core.frozen import frozen
from agentcli.core.permission import PermissionMode


@frozen
class ModeWords:
    label: str
    short: str
    """Where there is little room."""
    meaning: str
    status: str = ""
    """For the status line, where there is room: what the mode rests on."""


MODE_WORDS: Mapping[str, ModeWords] = {
    PermissionMode.DEFAULT.value: ModeWords(
        "default mode", "default", "asks before it changes or runs what no rule allows"
    ),
    PermissionMode.ACCEPT_EDITS.value: ModeWords("accept edits", "edits", "edits files in the project without asking"),
    PermissionMode.AUTO.value: ModeWords(
        "auto mode", "auto", "edits and runs sandboxed commands without asking", "auto · sandboxed, no network"
    ),
    PermissionMode.PLAN.value: ModeWords("plan mode", "plan", "reads only, until you have approved a plan"),
    PermissionMode.DONT_ASK.value: ModeWords("don't ask", "no ask", "refuses what it would have to ask about"),
    PermissionMode.BYPASS.value: ModeWords(
        "! bypass permissions", "! bypass", "dangerous: runs everything without asking"
    ),
}
"""By the name that settings and `/mode` know."""
