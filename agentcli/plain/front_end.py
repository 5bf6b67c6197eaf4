"""What slash commands and `/login` ask of plain mode: numbered lists, the user's editor, the clipboard, a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentcli.commands.front_end import BUSY, Choice, FrontEnd, Unavailable
from agentcli.core.errors import AgentError
from agentcli.core.text.plaintext import plain_text, show_command
from agentcli.interactive.login.model_access import ModelAccess
from agentcli.interactive.questions.model import AnswerChoice
from agentcli.plain.line_reader import QuitRequested
from agentcli.plain.pieces import Gap, Piece, TextLine, TextStyle, prose
from agentcli.plain.questions import QuestionClosed, choose

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.config.trust import TrustState
    from agentcli.core.events import Event
    from agentcli.interactive.login.welcome import Welcome
    from agentcli.interactive.login.welcome_actions import WelcomeActions
    from agentcli.plain.session import PlainSession
    from agentcli.plain.start import Plain
    from agentcli.session.base import Rewind

NOT_CONNECTED = "No model is connected: /login connects one. agentcli demo is a tour without one."
_MAX_COLUMN = 40
"""Characters of details that stand before the choices; longer ones stand behind."""
_ALTERNATIVES = {
    "find": "Search in the terminal's own scrollback.",
    "theme": "Plain mode uses the terminal's own colours.",
}
"""What to do instead of opening a page, by the kind of page."""


class PlainFrontEnd(FrontEnd):
    """See `FrontEnd` for the contract of each method."""

    instead = "Start agentcli without --plain to use it."
    keys = """\
Enter sends; Ctrl+J, Alt+Enter or a backslash at the end starts a new line
Esc or Ctrl+C stops the work
At the prompt Ctrl+C clears it; Ctrl+C twice or Ctrl+D quits
While the agent works, Enter queues what you typed
Enter on an empty line stops the work and sends what is queued
Tab completes / commands and @ files; ! runs a command in your own shell
Up and Ctrl+R recall earlier prompts; Ctrl+X Ctrl+E opens your editor
Shift+Tab changes the permission mode; Ctrl+B moves a command or agent to the background"""

    def __init__(self, plain: Plain) -> None:
        self._plain = plain

    async def run(self, text: str) -> bool:
        """Run a line that is a local command; False for any other line. Raises `QuitRequested`."""
        from agentcli.commands.line import CommandLine, parse_line
        from agentcli.core.events import NoticeRaised

        line = parse_line("/help" if text.strip() == "?" else text, self._plain.session.engine)
        if not isinstance(line, CommandLine) or line.command is None:
            return False
        if not line.command.is_local(line.arguments, self):
            return False
        async for event in line.command.load()(self._plain.session.engine, line.arguments, self):
            if isinstance(event, NoticeRaised):
                style: TextStyle = "error" if event.level == "error" else "text"
                self._plain.session.write([prose(plain_text(event.text), style)])
        return True

    async def options(self) -> Options:
        if self._plain.options is None:
            raise AgentError("The session is still starting. Try again in a moment.")
        return self._plain.options

    async def page(self, kind: str, *data: Any) -> Any:
        raise Unavailable(_ALTERNATIVES.get(kind, self.instead))

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        session = self._plain.session
        session.write([prose(title if title.endswith("?") else f"{title}:", "text")])
        for number, choice in enumerate(choices, 1):
            mark, detail = f"  {number:>2}  ", f"{choice.detail}  "
            if len(detail) > _MAX_COLUMN:
                session.write([prose(f"{choice.label}: {choice.detail}", "text", mark, "mark")])
            else:
                session.write([TextLine(((mark, "mark"), (detail, "quiet"), (choice.label, "text")), prose=True)])
        while True:
            text = await session.read("Which one (a number, or Enter for none): ")
            if text is None or not text.strip():
                return None
            if text.strip().isdecimal() and 1 <= int(text) <= len(choices):
                return choices[int(text) - 1].value
            session.write_note(f"Type a number from 1 to {len(choices)}, or only Enter.", "warning")

    async def review_trust(self, state: TrustState) -> bool:
        from agentcli.interactive.questions.kinds import TRUSTED, ask_for_trust
        from agentcli.plain.questions import answer_question

        return await answer_question(ask_for_trust(state, can_exit=False), self._plain.session) == TRUSTED

    async def perform(self, work: AsyncGenerator[Event, None]) -> None:
        session = self._plain.session
        if (running := session.driver.perform(work)) is None:
            raise AgentError(BUSY)
        await session.wait_until_released()
        await asyncio.wait([running])

    def prefill(self, text: str) -> None:
        self._plain.session.put_before(text)

    def hint(self, text: str) -> None:
        self._plain.session.write_note(text)

    async def copy(self, text: str) -> str:
        return await self._plain.copy(text)

    async def edit(self, text: str) -> str:
        return await self._plain.session.edit(text)

    async def open_session(self, resume: str | None = None, rewind: Rewind | None = None) -> None:
        from agentcli.assemble.options import another_session

        await self._plain.open(another_session(await self.options(), resume, rewind))

    async def connect(self) -> None:
        await self._plain.model_connection.open(await self.options())

    async def disconnect(self) -> str:
        return await self._plain.model_connection.forget_key(await self.options())

    def leave(self) -> None:
        raise QuitRequested


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
            self._session.write_note(welcome.report)
        elif self.is_unreachable:
            self._session.write_note(NOT_CONNECTED)

    async def _step(self, welcome: Welcome, connecting: WelcomeActions) -> Welcome:
        self._session.write(_show_step(welcome))
        if welcome.asks:
            text = await self._session.read("Key: ", hidden=True)
            if text is None:
                return welcome.back()
            return await connecting.do(welcome.entered(text))
        choices = [replace(offer, line=_typed_label(offer)) for offer in welcome.offers()]
        try:
            chosen, _words = await choose(choices, self._session)
        except QuestionClosed:
            return welcome.back()
        return await connecting.do(welcome.choose(chosen.name))


def _typed_label(offer: AnswerChoice) -> str:
    return show_command(f"{offer.label} ({offer.detail})" if offer.detail else offer.label)


def _show_step(welcome: Welcome) -> list[Piece]:
    pieces: list[Piece] = [Gap(), prose(show_command(welcome.question), "warning", "? ", "warning")]
    if welcome.problem:
        pieces.append(prose(show_command(welcome.problem), "error", "  ! ", "error"))
    return [*pieces, *(prose(show_command(text), "text", "  ") for text in welcome.lines)]
