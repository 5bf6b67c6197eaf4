"""Connecting a model in lines: by `/login`, and by itself when a prompt is sent and no model can be reached."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.core.shell import shown_command
from agentcli.plain.pieces import Gap, Line, Piece, line
from agentcli.plain.session import Session
from agentcli.providers.connection import Connection

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.interactive.connecting import Connecting
    from agentcli.interactive.welcome import Offer, Welcome

NOBODY = "No model is connected: /login connects one. agentcli demo shows how it works without any."


class Welcoming:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = Connection()
        self._next = self._connection
        self._connecting: Connecting | None = None

    def prepared(self, options: Options) -> Options:
        """For a new engine: with a way to the model that can be changed later, and with what was chosen so far."""
        self._next = Connection()
        options = replace(options, connection=self._next)
        if self._connecting is None:
            return options
        now = self._connecting.options
        return replace(options, base_url=now.base_url, model=now.model)

    def engine_changed(self) -> None:
        """The engine that `prepared` was for is the one in use now."""
        self._connection = self._next

    @property
    def nobody_answers(self) -> bool:
        return bool(self._connection.problem)

    async def open(self, options: Options, *, waiting: bool = False) -> None:
        """Ask how a model is to be reached, until one is or the person leaves it. `waiting`: a prompt wants to be
        answered. Raises `AgentError`."""
        connecting = await self._ready(options)
        welcome = await asyncio.to_thread(lambda: connecting.begin(demo=False, waiting=waiting))
        welcome = welcome.found(await connecting.servers())
        while welcome.step != "done":
            welcome = await self._step(welcome, connecting)
        engine = self._session.engine
        if welcome.outcome != "later" and engine is not None:
            await connecting.connect(welcome, engine, self._connection)
            self._session.note(welcome.told)
        elif self.nobody_answers:
            self._session.note(NOBODY)

    async def forget(self, options: Options) -> str:
        """`/logout`: what to say. Raises `AgentError`."""
        connecting = await self._ready(options)
        said = await asyncio.to_thread(connecting.forget)
        if not said:
            return f"No key was kept. What is used now is from: {self._connection.key_source}."
        from agentcli.assemble.model import reconnect

        await asyncio.to_thread(reconnect, connecting.options, self._connection)
        return f"{said} {NOBODY if self.nobody_answers else f'Still in use: {self._connection.key_source}'}"

    async def _ready(self, options: Options) -> Connecting:
        if self._connecting is None:
            self._connecting = await asyncio.to_thread(_made, options)
        return self._connecting

    async def _step(self, welcome: Welcome, connecting: Connecting) -> Welcome:
        self._session.show(_said(welcome))
        if welcome.asks:
            text = await self._session.ask("Key: ", hidden=True)
            if text is None:
                return welcome.back()
            return await connecting.do(*welcome.entered(text))
        offers = welcome.offers()
        name = await self._chosen(offers)
        return welcome.back() if name is None else await connecting.do(*welcome.choose(name))

    async def _chosen(self, offers: tuple[Offer, ...]) -> str | None:
        """None: Esc or Ctrl+C."""
        for number, offer in enumerate(offers, 1):
            detail = f" ({shown_command(offer.detail)})" if offer.detail else ""
            words = f"  {shown_command(offer.label)}{detail}"
            self._session.show([Line(((f"  {number} ", "quiet"), (offer.letter or " ", "mark"), (words, "text")))])
        while True:
            text = await self._session.ask("Answer: ")
            if text is None:
                return None
            typed = text.strip().lower()
            for number, offer in enumerate(offers, 1):
                if typed and typed in (str(number), offer.letter):
                    return offer.name
            self._session.note(f"Type a number from 1 to {len(offers)} and Enter. Esc goes back.", "warning")


def _said(welcome: Welcome) -> list[Piece]:
    pieces: list[Piece] = [Gap(), line(shown_command(welcome.question), "warning", "? ", "warning")]
    if welcome.problem:
        pieces.append(line(shown_command(welcome.problem), "error", "  ! ", "error"))
    return [*pieces, *(line(shown_command(text), "text", "  ") for text in welcome.lines)]


def _made(options: Options) -> Connecting:
    from agentcli.interactive.connecting import Connecting

    return Connecting(options)
