"""The permission modes that Shift+Tab cycles through."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.core.permission import PermissionMode

_CYCLE = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO, PermissionMode.PLAN)


def next_mode(engine: Engine) -> PermissionMode:
    """The mode after the current one; auto mode only if it is available."""
    modes = [mode for mode in _CYCLE if mode is not PermissionMode.AUTO or not engine.auto_mode_problem]
    present = engine.permissions.mode
    place = modes.index(present) if present in modes else -1
    return modes[(place + 1) % len(modes)]
