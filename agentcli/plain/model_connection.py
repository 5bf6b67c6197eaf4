"""Connecting a model in plain mode: for `/login`, and automatically if no model can be reached for a prompt."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.core.text.plaintext import shown_command
from agentcli.interactive.login.model_access import ModelAccess
from agentcli.interactive.questions.model import AnswerChoice
from agentcli.plain.pieces import Gap, Piece, prose
from agentcli.plain.questions import QuestionClosed, choose
from agentcli.plain.session import PlainSession

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.interactive.login.welcome import Welcome
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
        choices = [replace(offer, line=_typed_label(offer)) for offer in welcome.offers()]
        try:
            chosen, _words = await choose(choices, self._session)
        except QuestionClosed:
            return welcome.back()
        return await connecting.do(*welcome.choose(chosen.name))


def _typed_label(offer: AnswerChoice) -> str:
    return shown_command(f"{offer.label} ({offer.detail})" if offer.detail else offer.label)


def _show_step(welcome: Welcome) -> list[Piece]:
    pieces: list[Piece] = [Gap(), prose(shown_command(welcome.question), "warning", "? ", "warning")]
    if welcome.problem:
        pieces.append(prose(shown_command(welcome.problem), "error", "  ! ", "error"))
    return [*pieces, *(prose(shown_command(text), "text", "  ") for text in welcome.lines)]
