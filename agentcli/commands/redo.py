"""/redo: take the last undo back."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.conflict_choices import put_back
from agentcli.core.events import Event

MANUAL = Manual(
    "Only what /undo took back. What you changed since stays; where you changed the same lines, it asks.",
    (("/redo", "as it was"), ("/redo replace", "also where you changed the same lines")),
)


def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    return put_back(engine, arguments, again=True)
