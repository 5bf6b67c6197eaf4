"""What a resumed session has lost: the permission mode and the session rules of an earlier process."""

from __future__ import annotations

from collections.abc import Iterable

from agentcli.core import events as ev
from agentcli.core.permission import PermissionMode
from agentcli.core.plural import counted


def earlier_rights_notice(history: Iterable[ev.Event], mode: PermissionMode) -> str:
    """One line for the user; empty if nothing was lost, as far as the session file records it."""
    earlier, rules = "", set[str]()
    for event in history:
        if isinstance(event, ev.ModeChanged):
            earlier = event.mode
        elif isinstance(event, ev.RulesLearned) and event.where == "session":
            rules.update(event.rules)
    lost = [f"the mode {earlier}"] if earlier and earlier != mode.value else []
    lost += [counted(len(rules), "rule") + " for the session"] if rules else []
    if not lost:
        return ""
    return f"Not active any more from earlier in this session: {' and '.join(lost)}. The mode is {mode.value}."
