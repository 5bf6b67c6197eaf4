"""/status: what is in force: session, model, mode, folders, sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli import __version__
from agentcli.agent.engine import Engine
from agentcli.commands.base import say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line


async def run(engine: Engine, _arguments: str) -> AsyncGenerator[Event, None]:
    profile = engine.profile
    totals = engine.totals
    rows = [
        ("version", __version__),
        ("session", engine.session_id),
        ("messages", f"{len(engine.messages):,}"),
        ("model", profile.model),
        ("effort", profile.effort or "auto"),
        ("thinking", profile.thinking.mode),
        ("mode", engine.permission_mode.value),
        ("sandbox", engine.sandbox),
        ("folder", str(engine.cwd)),
        *(("also", str(folder)) for folder in engine.working_dirs if folder != engine.working_dirs[0]),
        ("cost", f"${totals.cost_usd:.4f}" + ("" if totals.fully_priced else " and what has no known price")),
    ]
    yield say("\n".join(f"{name:<9} {plain_line(value, 300)}" for name, value in rows))
