"""`AppFrontEnd`: the app's implementation of `FrontEnd` for slash commands (pages by kind, clipboard, sessions)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentcli.commands.front_end import BUSY, Choice, FrontEnd
from agentcli.config.themes import ThemeError
from agentcli.core.errors import AgentError
from agentcli.core.text.plaintext import plain_text
from agentcli.interactive.drafts import Draft

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.agent.live_permissions import RuleEntry
    from agentcli.assemble import Options
    from agentcli.commands.extensions import HookRow
    from agentcli.commands.session import SessionChoice
    from agentcli.config.settings import SettingRow as Setting
    from agentcli.config.settings import SettingScope
    from agentcli.config.trust import TrustState
    from agentcli.context.report import ChangePrice
    from agentcli.core.events import Event
    from agentcli.history.steps import StepChoice, StepList
    from agentcli.mcp.server import McpServer
    from agentcli.mcp.servers import McpServers
    from agentcli.providers.base import Effort
    from agentcli.session.base import Rewind
    from agentcli.session.search_index import SearchHit, SessionIndex
    from agentcli.tui.app import AgentApp
    from agentcli.tui.chat import ChatScreen
    from agentcli.workspace.base import DiffScope


class AppFrontEnd(FrontEnd):
    has_pages = True

    def __init__(self, app: AgentApp, chat: ChatScreen) -> None:
        self._app = app
        self._chat = chat

    async def options(self) -> Options:
        await self._app.opener.options_ready.wait()
        assert self._app.opener.options is not None
        return self._app.opener.options

    async def page(self, kind: str, *data: Any) -> Any:
        """Open a page; `_model` opens the page `model`."""
        return await getattr(self, f"_{kind}")(*data)

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        from agentcli.tui.screens.picker import Picker
        from agentcli.tui.screens.row_list import Row

        rows = [Row(choice.value, choice.label, choice.detail) for choice in choices]
        picked: str | None = await self._app.ask_on_screen(Picker(title, rows))
        return picked

    def send(self, line: str) -> None:
        self._chat.send(Draft(line))

    async def perform(self, work: AsyncGenerator[Event, None]) -> None:
        if (running := self._chat.session.perform(work)) is None:
            raise AgentError(BUSY)
        await asyncio.wait([running])
        self._chat.session.catch_up()

    def prefill(self, text: str) -> None:
        prompt = self._chat.prompt
        if not (typed := prompt.draft).is_empty and typed.text != text:
            prompt.history.add(typed)
            self.hint("Your unsent text is in the history: press Up")
        prompt.load(Draft(text))

    def hint(self, text: str) -> None:
        self._chat.hint(text)

    async def copy(self, text: str) -> str:
        return await self._app.surroundings.copy(text)

    async def edit(self, text: str) -> str:
        from agentcli.tui.prompt.external_input import edit_outside

        engine = self._chat.session.engine
        cwd = engine.cwd if engine is not None else self._app.preferences.cwd
        return await edit_outside(self._app, text, os.environ, cwd)

    async def open_session(self, resume: str | None = None, rewind: Rewind | None = None) -> None:
        await self.options()
        await self._app.opener.open(resume, rewind)

    async def connect(self) -> None:
        await self._app.opener.engine_ready.wait()
        await self._app.model_connection.open()

    async def disconnect(self) -> str:
        return await self._app.model_connection.forget_key(await self.options())

    async def review_trust(self, state: TrustState) -> bool:
        from agentcli.interactive.questions.kinds import TRUSTED, ask_for_trust
        from agentcli.tui.screens.question import QuestionDialog

        dialog = QuestionDialog(ask_for_trust(state, can_exit=False))
        dialog.typed = lambda: self._chat.prompt.last_typed
        return bool(await self._app.ask_on_screen(dialog) == TRUSTED)

    async def save_setting(self, name: str, value: Any, scope: str = "user") -> str:
        if name == "theme" and isinstance(value, str):
            try:
                self._app.themes.use(value)
            except ThemeError as error:
                raise AgentError(str(error)) from error
        where = await asyncio.to_thread(self._app.preferences.keep, name, value, cast("SettingScope", scope))
        if name == "theme":
            # Else the changed file would end the preview of another theme when it is read again.
            self._app.preferences = replace(self._app.preferences, theme=value)
        return where

    def themes(self) -> list[tuple[str, str]]:
        return [(theme.name, theme.description) for theme in self._app.themes.active.all().values()]

    def leave(self) -> None:
        self._app.leave()

    async def _model(self, engine: Engine) -> Any:
        from agentcli.tui.screens.pickers import ModelPicker

        def price(model: str) -> ChangePrice:
            return engine.context.price_of_change(replace(engine.profile, model=model))

        picker = ModelPicker(engine.session.catalog, engine.model, engine.context.outlook().tokens, price)
        return await self._app.ask_on_screen(picker)

    async def _effort(self, engine: Engine) -> Any:
        from agentcli.tui.screens.pickers import EffortPicker

        def price(level: str) -> ChangePrice:
            effort = cast("Effort | None", None if level == "auto" else level)
            return engine.context.price_of_change(replace(engine.profile, effort=effort))

        info = engine.session.catalog.get(engine.model)
        return await self._app.ask_on_screen(EffortPicker(info, engine.effort or "auto", price))

    async def _mode(self, engine: Engine) -> Any:
        from agentcli.tui.screens.pickers import ModePicker

        return await self._app.ask_on_screen(ModePicker(engine.permissions.mode))

    async def _permissions(self, engine: Engine, entries: Sequence[RuleEntry]) -> Any:
        """Return the arguments for `/permissions` that make the change chosen by the user."""
        from agentcli.tui.screens.permission_rules import PermissionsPage

        return await self._app.ask_on_screen(PermissionsPage(entries, engine.permissions.mode.label))

    async def _context(self, engine: Engine) -> None:
        from agentcli.commands.context import server_lines
        from agentcli.tui.screens.context import ContextPage

        outlook = engine.context.outlook()
        items = await asyncio.to_thread(engine.context.items)
        dropped = await asyncio.to_thread(engine.context.dropped_items)
        limits, notes = (outlook.window, outlook.compact_at), server_lines(engine.server_costs())
        await self._app.ask_on_screen(ContextPage(items, *limits, dropped=dropped, control=engine.context, notes=notes))
        self._chat.session.refresh_facts()

    async def _cost(self, engine: Engine) -> None:
        from agentcli.commands.cost import cost_parts
        from agentcli.tui.screens.page import TablesPage

        await self._app.ask_on_screen(TablesPage("Cost of this session", lambda width: cost_parts(engine, width)))

    async def _diff(self, engine: Engine, scope: DiffScope) -> None:
        from agentcli.commands.diff import load_changes
        from agentcli.tui.screens.diff import DiffPage

        await self._app.ask_on_screen(DiffPage(lambda wanted: load_changes(engine, wanted), self.copy, scope))

    async def _steps(self, steps: StepList) -> StepChoice | None:
        from agentcli.tui.screens.scrubber import Scrubber

        choice: StepChoice | None = await self._app.ask_on_screen(Scrubber(steps))
        return choice

    async def _tasks(self, engine: Engine) -> str | None:
        from agentcli.tui.screens.tasks import TasksPage

        def output(task_id: str) -> list[str]:
            return plain_text(engine.background.output(task_id)).splitlines()[-200:]

        transcript = self._chat.transcript
        page = TasksPage(engine.background.tasks, output, transcript.agents())

        def refresh() -> None:
            if page.is_open:
                page.update_tasks(engine.background.tasks, transcript.agents())

        refreshing = self._app.set_interval(1.0, refresh)
        try:
            picked: str | None = await self._app.ask_on_screen(page)
        finally:
            refreshing.stop()
        return picked

    async def _hooks(self, rows: Sequence[HookRow]) -> None:
        from agentcli.tui.screens.pickers import HooksPage

        await self._app.ask_on_screen(HooksPage(rows))

    async def _mcp(self, servers: McpServers, server: McpServer | None = None) -> None:
        from agentcli.tui.screens.mcp import McpPage, ServerPage

        await self._app.ask_on_screen(McpPage(servers) if server is None else ServerPage(server, servers))

    async def _help(self, keys_first: bool = False) -> Any:
        from agentcli.commands.help import READ_ON, manual_lines
        from agentcli.commands.registry import rows
        from agentcli.tui.keys import help_rows
        from agentcli.tui.screens.pickers import HelpPage

        keymap = self._app.preferences.keymap or {}
        known = rows(self._chat.session.engine)
        commands = [("Commands", command.usage, command.described) for command in known]
        keys = [*help_rows(keymap), *(("More help", where, text) for where, text in READ_ON)]
        by_usage = {command.usage: command for command in known}

        def more(usage: str) -> list[str]:
            return manual_lines(by_usage[usage]) if usage in by_usage else []

        page = HelpPage(commands, keys, more, commands_first=not keys_first)
        return await self._app.ask_on_screen(page)

    async def _theme(self) -> Any:
        from agentcli.tui.screens.pickers import ThemePicker

        problems: list[str] = []
        themes = await asyncio.to_thread(self._app.themes.active.all, problems.append)
        for problem in problems:
            self._chat.session.note(problem, "warning")
        rows = [(theme.name, theme.description, theme.dark) for theme in themes.values()]
        active = self._app.themes.active
        current = active.theme.name if active.problem else active.setting or "auto"
        picker = ThemePicker(rows, current, self._app.themes.try_out)
        return await self._app.ask_on_screen(picker)

    async def _settings(self, rows: list[Setting]) -> Any:
        from agentcli.tui.screens.settings import SettingsPage

        return await self._app.ask_on_screen(SettingsPage(rows, self._app.preferences.settings_files))

    async def _sessions(self, index: SessionIndex, cwd: Path, query: str) -> SessionChoice | None:
        from agentcli.tui.resume import last_lines_of
        from agentcli.tui.screens.sessions import SessionPicker

        picker = SessionPicker(index, cwd, last_lines_of, query)
        picked: SessionChoice | None = await self._app.ask_on_screen(picker)
        if picked is None and self._app.opener.picks_session:
            await self._app.opener.open()
        return picked

    async def _prompt(self, hit: SearchHit) -> None:
        self._app.opener.show_prompt(hit.prompt_id, hit.prompt)

    async def _find(self, query: str) -> None:
        self._chat.finder.open(query)
