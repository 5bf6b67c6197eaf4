"""Completions of arguments that an MCP server provides: requested in the background, with a time limit, cached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

LateArguments = Callable[[str, str], Awaitable[list[tuple[str, str]]]]
"""Maps a command and its arguments typed so far to completed argument lines, each with a short description."""
LIMIT_SECONDS = 2.0
_MOST_KEPT = 200


async def no_late_arguments(_command: str, _typed: str) -> list[tuple[str, str]]:
    return []


class LateCompletions:
    """Never fails: without an answer in time there are no completions."""

    def __init__(self, engine: Callable[[], Engine | None], limit: float = LIMIT_SECONDS) -> None:
        self._engine = engine
        self._limit = limit
        self._known: dict[tuple[int, str, str], list[tuple[str, str]]] = {}
        """Cached completions by server version, command and typed text."""

    async def __call__(self, command: str, typed: str) -> list[tuple[str, str]]:
        engine = self._engine()
        if engine is None or engine.mcp is None:
            return []
        from agentcli.commands.registry import find
        from agentcli.mcp.connection import McpFailure

        row = find(command, engine)
        if row is None or row.completes_late is None:
            return []
        key = (engine.mcp.version, command, typed)
        if key in self._known:
            return self._known[key]
        try:
            async with asyncio.timeout(self._limit):
                values = await row.completes_late(typed)
        except (McpFailure, TimeoutError):
            values = []
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[key] = values
        return values
