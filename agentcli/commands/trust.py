"""/trust: review the project's own settings, hooks and definitions, and apply them at once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.config.trust import TrustStore
from agentcli.core.processes.shell import shown_name

MANUAL = Manual(
    "Settings, hooks, MCP servers, commands, skills and agents of a project take effect only after you have trusted "
    "their content. When one of these files changes, it is off until you trust it again.",
    (("/trust", "review new and changed files and trust them"),),
)


async def run(engine: Engine | None, _arguments: str, front_end: FrontEnd) -> str:
    options = await front_end.options()
    store = TrustStore.of(os.environ if options.environ is None else options.environ)
    state = await asyncio.to_thread(store.state_for_review, options.cwd or Path.cwd())
    root = shown_name(str(state.root))
    if options.trust:
        return "This run was started with --trust: all files of this project apply already."
    if not state.parts:
        return f"{root} has no settings, hooks, MCP servers, commands, skills or agents of its own."
    if not state.trusted:
        if not await front_end.review_trust(state):
            return "Nothing was trusted. Only the deny and ask rules of its settings apply."
        await asyncio.to_thread(store.trust, state)
    if engine is not None:
        await engine.reread()
    return f"{root} is trusted. Its settings, hooks, MCP servers and definitions apply now."
