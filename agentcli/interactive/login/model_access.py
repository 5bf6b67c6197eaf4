"""The connection between an interactive front end and its model, and how `/login` and `/logout` change it.

The front end decides what to ask the user, and how."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.providers.base import Connection

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options
    from agentcli.interactive.login.welcome_actions import WelcomeActions


class ModelAccess:
    def __init__(self) -> None:
        self.connection = Connection()
        self._next = self.connection
        self._connecting: WelcomeActions | None = None

    async def new_engine(self, options: Options) -> Engine:
        """Build an engine whose connection can be changed later, with the address and model chosen so far. Raises
        `AgentError`."""
        self._next = Connection()
        options = replace(options, connection=self._next)
        if self._connecting is not None:
            now = self._connecting.options
            options = replace(options, base_url=now.base_url, model=now.model)
        return await asyncio.to_thread(_built, options)

    def engine_changed(self) -> None:
        """Switch to the connection of the last engine built: it is in use now."""
        self.connection = self._next

    @property
    def is_unreachable(self) -> bool:
        return bool(self.connection.problem)

    async def ready(self, options: Options) -> WelcomeActions:
        if self._connecting is None:
            # In a thread: its imports are slow, and the user is typing.
            self._connecting = await asyncio.to_thread(_make_actions, options)
        return self._connecting

    async def forget_key(self, options: Options) -> str:
        """Run `/logout` and return its message. Raises `AgentError`."""
        connecting = await self.ready(options)
        said = await asyncio.to_thread(connecting.forget)
        if said:
            from agentcli.assemble.model import reconnect

            await asyncio.to_thread(reconnect, connecting.options, self.connection)
        source = self.connection.key_source
        rest = "No model is connected now; /login connects one." if self.is_unreachable else f"In use: {source}."
        return f"{said or 'No key was stored.'} {rest}"


def _built(options: Options) -> Engine:
    from agentcli.assemble import build_engine

    return build_engine(options)


def _make_actions(options: Options) -> WelcomeActions:
    from agentcli.interactive.login.welcome_actions import WelcomeActions

    return WelcomeActions(options)
