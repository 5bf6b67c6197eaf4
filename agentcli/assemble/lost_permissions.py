"""Notice about the permission mode and session rules that a resumed session no longer has."""

from __future__ import annotations

from collections.abc import Iterable

from agentcli.core import events as ev
from agentcli.core.permission import PermissionMode
from agentcli.core.plural import counted


def lost_permissions_notice(history: Iterable[ev.Event], mode: PermissionMode) -> str:
    """One line for the user; empty if the session file records no lost mode or rule."""
    earlier, rules = "", set[str]()
    for event in history:
        if isinstance(event, ev.ModeChanged):
            earlier = event.mode
        elif isinstance(event, ev.RulesLearned) and event.where == "session":
            rules.update(event.rules)
    lost = [f"mode {earlier}"] if earlier and earlier != mode.value else []
    lost += [counted(len(rules), "session rule")] if rules else []
    if not lost:
        return ""
    return f"Not restored from the earlier session: {' and '.join(lost)}. The mode is now {mode.value}."
