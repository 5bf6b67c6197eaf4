"""/undo: put back what the last prompt changed in files; again to go further back."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.conflict_choices import put_back
from agentcli.core.events import Event

MANUAL = Manual(
    "Whatever changed the files: an edit or a command. What you changed meanwhile and since stays, and so does the "
    "conversation. Where you changed the same lines, it asks.",
    (
        ("/undo", "the last prompt's changes; again: those of the prompt before"),
        ("/undo keep", "where you changed the same lines, keep yours"),
        ("/undo replace", "put the lines from before the prompt there"),
    ),
)


def run(engine: Engine, arguments: str) -> AsyncGenerator[Event, None]:
    return put_back(engine, arguments, again=False)
