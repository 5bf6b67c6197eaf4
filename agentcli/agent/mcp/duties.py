"""Answers what MCP servers ask of the client, for the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.mcp.client_duties import ClientDuties


class SessionDuties(ClientDuties):
    """Made before the engine, which `bind` makes known."""

    def __init__(self) -> None:
        self._folders: Callable[[], Sequence[Path]] = tuple

    def bind(self, folders: Callable[[], Sequence[Path]]) -> None:
        self._folders = folders

    def roots(self) -> Sequence[Path]:
        return self._folders()
