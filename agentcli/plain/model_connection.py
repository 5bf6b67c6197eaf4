"""Connecting a model in plain mode: for `/login`, and automatically if no model can be reached for a prompt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentcli.core.processes.shell import shown_command
from agentcli.core.text.plaintext import is_lone_key
from agentcli.interactive.login.model_access import ModelAccess
from agentcli.plain.pieces import Gap, Piece, TextLine, TextRuns, prose
from agentcli.plain.session import PlainSession

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.interactive.login.welcome import Offer, Welcome
    from agentcli.interactive.login.welcome_actions import WelcomeActions

NOT_CONNECTED = "No model is connected: /login connects one. agentcli demo is a tour without one."


class PlainModelConnection(ModelAccess):
    def __init__(self, session: PlainSession) -> None:
        super().__init__()
        self._session = session

    async def open(self, options: Options, *, waiting: bool = False) -> None:
        """Ask how to reach a model until one is connected or the user gives up. `waiting`: a prompt waits for it.
        Raises `AgentError`."""
        connecting = await self.ready(options)
        welcome = await asyncio.to_thread(lambda: connecting.begin(demo=False, waiting=waiting))
        welcome = welcome.found(await connecting.servers())
        while welcome.step != "done":
            welcome = await self._step(welcome, connecting)
        engine = self._session.engine
        if welcome.outcome != "later" and engine is not None:
            await connecting.connect(welcome, engine, self.connection)
            self._session.note(welcome.report)
        elif self.is_unreachable:
            self._session.note(NOT_CONNECTED)

    async def _step(self, welcome: Welcome, connecting: WelcomeActions) -> Welcome:
        self._session.show(_show_step(welcome))
        if welcome.asks:
            text = await self._session.ask("Key: ", hidden=True)
            if text is None:
                return welcome.back()
            return await connecting.do(*welcome.entered(text))
        offers = welcome.offers()
        name = await self._choose(offers)
        return welcome.back() if name is None else await connecting.do(*welcome.choose(name))

    async def _choose(self, offers: tuple[Offer, ...]) -> str | None:
        """Ask for one of the offers and return its name. None: Esc or Ctrl+C."""
        for number, offer in enumerate(offers, 1):
            detail = f" ({shown_command(offer.detail)})" if offer.detail else ""
            runs: TextRuns = ((f"  {number} ", "quiet"), (offer.letter or " ", "mark"), ("  ", "text"))
            words = f"{shown_command(offer.label)}{detail}"
            self._session.show([TextLine((*runs, (words, "text")), prose=True)])
        while True:
            text = await self._session.ask("Answer: ")
            if text is None:
                return None
            if is_lone_key(text):
                self._session.note("Choose the option for a key first. It hides the key while you type.", "warning")
                continue
            typed = text.strip().lower()
            for number, offer in enumerate(offers, 1):
                if typed and typed in (str(number), offer.letter):
                    return offer.name
            self._session.note(f"Type a number from 1 to {len(offers)} and Enter. Esc goes back.", "warning")


def _show_step(welcome: Welcome) -> list[Piece]:
    pieces: list[Piece] = [Gap(), prose(shown_command(welcome.question), "warning", "? ", "warning")]
    if welcome.problem:
        pieces.append(prose(shown_command(welcome.problem), "error", "  ! ", "error"))
    return [*pieces, *(prose(shown_command(text), "text", "  ") for text in welcome.lines)]
