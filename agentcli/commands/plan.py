"""/plan: plan first, change nothing until the plan is approved."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual, say
from agentcli.core.events import MODE_CHOSEN, Event
from agentcli.core.permission import PermissionMode

MANUAL = Manual(
    "The model reads the project and proposes a plan. You approve, reject or edit it.",
    (("/plan", "turn on plan mode"),),
)


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    if engine.permissions.mode is PermissionMode.PLAN:
        yield say("Plan mode is on already. /mode default leaves it.")
        return
    engine.permissions.set_mode(PermissionMode.PLAN)
    yield engine.permissions.mode_changed(MODE_CHOSEN)
    yield say("Plan mode is on: nothing is changed until you approve a plan. /mode default leaves it.")
