"""An engine in this process that talks to the bench's server: for what only the events can tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core.events import Event
from agentcli.core.permission import PermissionMode
from tests.bench.program import Workshop

Seen = list[tuple[float, Event]]


def engine_in(place: Workshop) -> Engine:
    """With the wire provider and a session file, as headless; everything is allowed."""
    return build_engine(Options(cwd=Path(place.project), environ=place.environ, permission_mode=PermissionMode.BYPASS))


async def submit(engine: Engine, look: Callable[[Event], None] = lambda _event: None) -> Seen:
    """Submit a prompt; the events with the time at which a consumer has each."""
    seen: Seen = []
    async with aclosing(engine.submit("hi")) as events:
        async for event in events:
            seen.append((time.monotonic(), event))
            look(event)
    return seen
