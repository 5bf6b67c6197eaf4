"""/mode and /plan: the permission mode."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.errors import UsageError
from agentcli.core.events import MODE_CHOSEN, Event
from agentcli.core.permission import PermissionMode

_MEANS = {
    PermissionMode.DEFAULT: "asks before anything that no rule allows",
    PermissionMode.ACCEPT_EDITS: "allows edits in the working directories",
    PermissionMode.AUTO: "allows edits and sandboxed commands without network",
    PermissionMode.PLAN: "changes nothing until you approve a plan",
    PermissionMode.DONT_ASK: "denies what would need approval",
    PermissionMode.BYPASS: "allows almost everything without asking",
}


async def run_mode(engine: Engine, arguments: str, front_end: FrontEnd) -> str | AsyncGenerator[Event, None] | None:
    """default asks before changes. acceptEdits allows edits in the working directories. auto also allows sandboxed
    commands without network. plan changes nothing until you approve a plan. dontAsk denies what would need approval.
    bypassPermissions allows almost everything. Shift+Tab cycles through the first four.

    /mode       choose from a list
    /mode auto  allow edits and sandboxed commands
    """
    if not arguments and front_end.has_pages:
        if (picked := await front_end.page("mode", engine)) is not None:
            front_end.send(f"/mode {picked.value}")
        return None
    if not arguments:
        lines = [f"  {mode.value:<18} {meaning}" for mode, meaning in _MEANS.items()]
        return "\n".join([f"The mode is {engine.permissions.mode.label}. /mode NAME changes it:", *lines])
    typed = arguments.strip().lower()
    wanted = next((mode for mode in PermissionMode if typed in (mode.value.lower(), mode.label)), None)
    if wanted is None:
        raise UsageError(f"There is no mode {arguments!r}. Modes: {', '.join(mode.value for mode in PermissionMode)}.")
    if wanted not in (engine.permissions.mode, PermissionMode.PLAN) and not engine.session.interactive:
        # A program may pass on prompts of others, which must not widen their own permissions.
        raise UsageError("In a non-interactive run, set the mode at the start: --permission-mode.")
    if wanted is PermissionMode.AUTO and engine.auto_mode_problem:
        raise UsageError(f"Auto mode is not available: {engine.auto_mode_problem}")
    return _change(engine, wanted, f"The mode is {wanted.label}: {_MEANS[wanted]}.")


async def _change(engine: Engine, mode: PermissionMode, text: str) -> AsyncGenerator[Event, None]:
    engine.permissions.set_mode(mode)
    yield engine.permissions.mode_changed(MODE_CHOSEN)
    yield say(text)


async def run_plan(engine: Engine, _arguments: str) -> str | AsyncGenerator[Event, None]:
    """The model reads the project and proposes a plan. You approve, reject or edit it.

    /plan  turn on plan mode
    """
    if engine.permissions.mode is PermissionMode.PLAN:
        return "Plan mode is on already. /mode default leaves it."
    text = "Plan mode is on: nothing is changed until you approve a plan. /mode default leaves it."
    return _change(engine, PermissionMode.PLAN, text)
