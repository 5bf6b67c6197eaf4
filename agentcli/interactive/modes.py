"""The permission modes that Shift+Tab cycles through, and those that an approved plan can continue in."""

from __future__ import annotations

from agentcli.agent.engine import Engine
from agentcli.core.events import PermissionRequested
from agentcli.core.permission import PermissionMode

_CYCLE = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO, PermissionMode.PLAN)


def next_mode(engine: Engine) -> PermissionMode:
    """The mode after the current one; auto mode only if it is available."""
    modes = [mode for mode in _CYCLE if mode is not PermissionMode.AUTO or not engine.auto_mode_problem]
    present = engine.permissions.mode
    place = modes.index(present) if present in modes else -1
    return modes[(place + 1) % len(modes)]


_AFTER_PLAN = {
    PermissionMode.DEFAULT: "ask before each edit",
    PermissionMode.ACCEPT_EDITS: "accept edits automatically",
}


def modes_after_plan(question: PermissionRequested) -> list[tuple[PermissionMode | None, str]]:
    """The modes in which an approved plan can be carried out, each with the rest of "Yes, and …". The first is None:
    the mode from which plan mode was entered."""
    returns_to = next((mode for mode in PermissionMode if mode.value == question.display.get("returns_to")), None)
    before = returns_to or PermissionMode.DEFAULT
    others = [(mode, words) for mode, words in _AFTER_PLAN.items() if mode is not before]
    return [(None, _AFTER_PLAN.get(before, f"continue in {before.label} mode")), *others]
