"""/redo: redo the changes of the last undo."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.conflict_choices import put_back
from agentcli.core.events import Event

MANUAL = Manual(
    "Redoes what /undo reverted and keeps your own changes. Asks where both changed the same lines.",
    (("/redo", "redo the changes"), ("/redo replace", "in conflicts, replace your lines")),
)


def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    return put_back(engine, arguments, again=True)
