"""/mode: show or choose the permission mode."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, fail, say
from agentcli.commands.front_end import FrontEnd
from agentcli.core.events import Event, ModeChanged
from agentcli.core.permission import PermissionMode

MANUAL = Manual(
    "default asks, acceptEdits lets edits in the working folders pass, auto also runs commands in the sandbox "
    "without network, plan changes nothing, dontAsk refuses what would ask, bypassPermissions asks about next to "
    "nothing. Shift+Tab cycles through the first four.",
    (("/mode", "choose from a list"), ("/mode auto", "edits and contained commands run without a question")),
)

_MEANS = {
    PermissionMode.DEFAULT: "asks before anything that is not allowed yet",
    PermissionMode.ACCEPT_EDITS: "edits in the working directories are not asked about",
    PermissionMode.AUTO: "edits and sandboxed commands without network run unasked; what needs more still asks",
    PermissionMode.PLAN: "nothing is changed until a plan is approved",
    PermissionMode.DONT_ASK: "what would be asked about is refused",
    PermissionMode.BYPASS: "nothing is asked about, but for a few things that could ruin the machine",
}


async def run(engine: Engine, arguments: str, front_end: FrontEnd) -> AsyncGenerator[Event, None]:
    if not arguments and front_end.has_pages:
        if (picked := await front_end.page("mode", engine)) is not None:
            front_end.send(f"/mode {picked.value}")
        return
    if not arguments:
        lines = [f"  {mode.value:<18} {meaning}" for mode, meaning in _MEANS.items()]
        yield say("\n".join([f"The mode is {engine.permissions.mode.value}.", *lines]))
        return
    wanted = next((mode for mode in PermissionMode if mode.value.lower() == arguments.lower()), None)
    if wanted is None:
        yield fail(f"There is no mode {arguments!r}. There are: {', '.join(mode.value for mode in PermissionMode)}.")
        return
    if wanted not in (engine.permissions.mode, PermissionMode.PLAN) and not engine.interactive:
        # A program passes on prompts of others; what it allows them must not be theirs to widen.
        yield fail("The mode of a run without a person is set where it is started: --permission-mode.")
        return
    if wanted is PermissionMode.AUTO and engine.auto_mode_problem:
        yield fail(f"Auto mode is not available: {engine.auto_mode_problem}")
        return
    engine.permissions.set_mode(wanted)
    yield ModeChanged(mode=wanted.value, reason="the user chose it")
    yield say(f"The mode is {wanted.value}: {_MEANS[wanted]}.")
