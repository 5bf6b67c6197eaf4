"""Connecting a model in the app: when the welcome dialog opens, and how the conversation continues afterwards.

It opens automatically if no model can be reached: at the start, and when a prompt is sent, which waits in the box
meanwhile. `/login` opens it at any time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentcli.core.errors import AgentError
from agentcli.interactive.login.model_access import ModelAccess
from agentcli.tui.start import DEMO_WANTED

if TYPE_CHECKING:
    from agentcli.interactive.drafts.draft import Draft
    from agentcli.interactive.login.welcome import Welcome
    from agentcli.interactive.login.welcome_actions import WelcomeActions
    from agentcli.tui.app import AgentApp


class ModelConnection(ModelAccess):
    def __init__(self, app: AgentApp) -> None:
        super().__init__()
        self._app = app
        self._is_open = False
        self._sent: Draft | None = None

    def begin(self, due: list[Draft]) -> None:
        """Open the dialog at the start, if no model is reachable. `due`: drafts sent before that was known."""
        if due[:-1]:
            self._app.chat.give_back(due[:-1])
        self._app.chat.actions.start(self.open(due[-1] if due else None))

    async def open(self, sent: Draft | None = None, key: str = "") -> None:
        """`sent`: the prompt that needs a model and stays in the box. `key`: an API key pasted into the box."""
        if sent is not None:
            self._sent = sent
            self._app.chat.give_back([sent])
        if self._is_open or self._app.opener.options is None:
            return
        self._is_open = True
        try:
            connecting = await self.ready(self._app.opener.options)
            welcome = await self._asked(connecting, key, is_automatic=sent is None and not key)
            if welcome is not None:
                await self._after(connecting, welcome)
        finally:
            self._is_open, self._sent = False, None

    async def _asked(self, connecting: WelcomeActions, key: str, *, is_automatic: bool) -> Welcome | None:
        from agentcli.tui.screens.welcome import WelcomeDialog

        app, chat = self._app, self._app.chat
        waiting = self._sent is not None
        welcome = await asyncio.to_thread(lambda: connecting.begin(demo=app.has_demo, waiting=waiting))
        dialog = WelcomeDialog(welcome, connecting.servers, connecting.do, key=key)
        if is_automatic:
            dialog.typed = lambda: chat.prompt.last_typed
            dialog.draft = lambda: chat.prompt.draft.text if self._sent is None else ""
            chat.prompt.on_edit = dialog.settle
        try:
            answer: Welcome | None = await app.ask_on_screen(dialog)
        finally:
            chat.prompt.on_edit = None
        return answer

    async def _after(self, connecting: WelcomeActions, welcome: Welcome) -> None:
        chat, engine = self._app.chat, self._app.chat.session.engine
        if welcome.outcome == "demo":
            self._app.leave(DEMO_WANTED)
            return
        if welcome.outcome == "later" or engine is None:
            if self.is_unreachable:
                chat.hint("No model is connected: /login connects one")
            return
        try:
            await connecting.connect(welcome, engine, self.connection)
        except AgentError as error:
            chat.actions.say(str(error), "error")
            return
        chat.actions.say(welcome.report)
        chat.session.refresh_facts()
        self._app.run_worker(engine.warm(), exit_on_error=False, group="warm")
        sent = self._sent
        if sent is not None and not self.is_unreachable and chat.prompt.draft == sent:
            chat.prompt.clear()
            chat.send(sent)
