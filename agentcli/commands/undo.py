"""/undo: revert the file changes of the latest prompt; repeated, those of earlier prompts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.conflict_choices import put_back
from agentcli.core.events import Event

MANUAL = Manual(
    "Reverts changes made by edits and by commands, and what git commands staged. Commits, your own changes and the "
    "conversation stay. Asks where both changed the same lines.",
    (
        ("/undo", "undo the latest changes; repeat for earlier ones"),
        ("/undo keep", "in conflicts, keep your lines"),
        ("/undo replace", "in conflicts, replace your lines"),
    ),
)


def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    return put_back(engine, arguments, again=False)
