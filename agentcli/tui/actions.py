"""What slash commands and keys do on the screen: pickers, pages, copying, another session.

A command that only looks, or that got its argument, goes to the session like everywhere else; here is what a screen
adds. Whatever is picked becomes the same command with an argument, so there is one way for every change.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from textual.screen import Screen

from agentcli.core.errors import AgentError
from agentcli.core.plaintext import is_lone_key, plain_text
from agentcli.core.plural import counted
from agentcli.interactive.draft import Draft
from agentcli.tui.theme.themes import ThemeError

if TYPE_CHECKING:
    from agentcli.agent.context.report import ChangePrice
    from agentcli.agent.engine import Engine
    from agentcli.providers.base import Effort
    from agentcli.session.find import SessionInfo
    from agentcli.tui.app import AgentApp
    from agentcli.tui.chat import ChatScreen


class Actions:
    def __init__(self, app: AgentApp, chat: ChatScreen) -> None:
        self._app = app
        self._chat = chat
        self._dialogs: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "model": self._model,
            "effort": self._effort,
            "mode": self._mode,
            "permissions": self._permissions,
            "context": self._context,
            "cost": self._cost,
            "tasks": self._tasks,
            "help": self._help,
            "theme": self._theme,
            "config": self._config,
            "resume": self._resume,
            "login": self._connect,
        }
        """Commands that open something when they come without an argument."""
        self._own: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
            "copy": self._copy,
            "diff": self._diff,
            "find": self._find,
            "theme": self._use_theme,
            "resume": self._resume_found,
            "clear": self._clear,
            "login": self._login,
            "logout": self._logout,
            "exit": self._exit,
        }
        """Commands that only a screen can do."""

    # --------------------------------------------------------------------------------------------------- entrance

    def handle(self, draft: Draft) -> bool:
        """Whether a line is done here. Everything else is the session's."""
        if is_lone_key(draft.text):
            # Pasted into the wrong place: it is no prompt, and nobody is to see it.
            self._start(self._app.welcoming.open(key=draft.text))
            return True
        if not draft.text.startswith("/"):
            return not draft.text.startswith("!") and self._waits_for_model(draft)
        from agentcli.commands.registry import find
        from agentcli.commands.run import parse

        line = parse(draft.text)
        command = find(line[0]) if line else None
        if line is None or command is None:
            return line is None and self._waits_for_model(draft)
        name, arguments = command.name, line[1]
        if not arguments and name in self._dialogs:
            self._start(self._dialogs[name]())
            return True
        if name in self._own:
            self._start(self._own[name](arguments))
            return True
        if name == "memory" and arguments.split()[:1] == ["edit"]:
            self._start(self._edit_memory(arguments.removeprefix("edit").strip()))
            return True
        return False

    def run(self, name: str) -> None:
        """An action of the screen by its name: a command's, `palette`, `rewind` or `keys`."""
        if name == "palette":
            self._start(self._palette())
        elif name == "rewind":
            self._start(self._rewind())
        elif name == "keys":
            self._start(self._help(keys_first=True))
        else:
            self._line(f"/{name}")

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside the keys; what goes wrong is told."""
        self._start(work)

    def _waits_for_model(self, draft: Draft) -> bool:
        """A prompt while no model can be reached: first one has to be connected."""
        if self._app.welcoming.nobody_answers:
            self._start(self._app.welcoming.open(draft))
        return self._app.welcoming.nobody_answers

    def copy_text(self, text: str, what: str) -> None:
        self._start(self._copied(text, what))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._guarded(work), exit_on_error=False, group="actions")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (AgentError, ThemeError) as error:
            self.say(str(error), "error")
        except Exception as error:
            import logging

            logging.getLogger("agentcli").exception("an action failed")
            self.say(f"agentcli itself failed: {type(error).__name__}: {error}", "error")

    def say(self, text: str, level: str = "info") -> None:
        self._chat.session.note(text, level)

    def _line(self, text: str) -> None:
        self._chat.send(Draft(text))

    async def _asked(self, screen: Screen[Any]) -> Any:
        return await self._app.ask_on_screen(screen)

    async def _ready(self) -> Engine:
        """The engine, once it is there: what is asked for while the app starts waits for it."""
        while (engine := self._chat.session.engine) is None:
            await self._app.engine_ready.wait()
            await asyncio.sleep(0.02)
        return engine

    # ---------------------------------------------------------------------------------------------------- pickers

    async def _model(self) -> None:
        from agentcli.tui.pickers.model import ModelPicker

        engine = await self._ready()
        tokens = engine.context.outlook().tokens

        def price(model: str) -> ChangePrice:
            return engine.context.price_of_change(replace(engine.profile, model=model))

        picker = ModelPicker(engine.catalog, engine.model, tokens, self._chat.palette, price)
        if (model := await self._asked(picker)) is not None:
            # The price stood beside it: nobody wants to be asked again.
            self._line(f"/model {model} now")

    async def _effort(self) -> None:
        from agentcli.tui.pickers.effort import EffortPicker

        engine = await self._ready()

        def price(level: str) -> ChangePrice:
            effort = cast("Effort | None", None if level == "auto" else level)
            return engine.context.price_of_change(replace(engine.profile, effort=effort))

        info = engine.catalog.get(engine.model)
        picker = EffortPicker(info, engine.profile.effort or "auto", price, self._chat.palette)
        if (level := await self._asked(picker)) is not None:
            self._line(f"/effort {level} now")

    async def _mode(self) -> None:
        from agentcli.tui.pickers.mode import ModePicker

        if (
            mode := await self._asked(ModePicker((await self._ready()).permissions.mode, self._chat.palette))
        ) is not None:
            self._line(f"/mode {mode.value}")

    async def _permissions(self) -> None:
        from agentcli.tui.pages.permissions import PermissionsPage

        engine = await self._ready()
        page = PermissionsPage(engine.permissions.entries(), engine.permissions.mode.value, self._chat.palette)
        if (change := await self._asked(page)) is not None:
            self._line(f"/permissions {change}")

    async def _theme(self) -> None:
        from agentcli.tui.pickers.theme import ThemePicker

        problems: list[str] = []
        themes = await asyncio.to_thread(self._app.dressing.all, problems.append)
        for problem in problems:
            self.say(problem, "warning")
        rows = [(theme.name, theme.description, theme.dark) for theme in themes.values()]
        picker = ThemePicker(rows, self._app.dressing.theme.name, self._app.try_theme, self._chat.palette)
        if (name := await self._asked(picker)) is not None:
            await self._use_theme(name)

    async def _use_theme(self, name: str) -> None:
        self._app.use_theme(name)
        where = await asyncio.to_thread(self._app.preferences.keep, "theme", name)
        self.say(f"The theme is {plain_text(name)} ({where}).")

    async def _palette(self) -> None:
        from agentcli.commands.registry import COMMANDS
        from agentcli.tui.sheets.picker import Picker
        from agentcli.tui.sheets.rows import Row

        rows = [Row(command, command.usage, command.summary) for command in COMMANDS]
        command = await self._asked(Picker("Commands", rows, self._chat.palette))
        if command is None:
            return
        if command.argument_hint.startswith("<"):
            self._chat.prompt.load(Draft(f"/{command.name} "))
        else:
            self._line(f"/{command.name}")

    async def _rewind(self) -> None:
        """Esc Esc on the empty box: what can be done about the last prompt."""
        from agentcli.tui.sheets.picker import Picker
        from agentcli.tui.sheets.rows import Row

        engine = await self._ready()
        changes = await engine.files.changes()
        last = next((m for m in reversed(engine.messages) if m.origin.value == "prompt"), None)
        rows = []
        if last is not None:
            rows.append(Row("edit", "Edit the last prompt and send it again", plain_text(last.text[:200])))
        if changes:
            names = ", ".join(str(change.path) for change in changes[:4])
            label = f"Undo what the last prompt changed in {counted(len(changes), 'file')}"
            rows.append(Row("undo", label, plain_text(names)))
        if not rows:
            self.say("Nothing to go back to yet.")
            return
        picked = await self._asked(Picker("Go back", rows, self._chat.palette))
        if picked == "edit" and last is not None:
            self._chat.prompt.load(Draft(plain_text(last.text)))
        elif picked == "undo":
            self._line("/undo")

    # ------------------------------------------------------------------------------------------------------ pages

    async def _context(self) -> None:
        from agentcli.tui.pages.context import ContextPage

        engine = await self._ready()
        outlook = engine.context.outlook()
        items = await asyncio.to_thread(engine.context.items)
        dropped = await asyncio.to_thread(engine.context.dropped_items)
        look = (items, outlook.window, outlook.compact_at, self._chat.palette)
        await self._asked(ContextPage(*look, dropped=dropped, control=engine.context))
        self._chat.session.refresh_facts()

    async def _cost(self) -> None:
        from agentcli.commands.cost import before, details, lost, saved
        from agentcli.tui.pages.cost import CostNotes, CostPage

        engine = await self._ready()
        outlook = engine.context.outlook()
        about = CostNotes(
            outlook.next_cost_usd, outlook.cold, lost(engine), before(engine), engine.costs.budget, saved(engine)
        )
        page = CostPage(
            engine.costs.totals, self._chat.palette, about, lambda width: details(engine.costs.spending, width)
        )
        await self._asked(page)

    async def _diff(self, arguments: str) -> None:
        from agentcli.commands.diff import ARGUMENTS, USAGE, load_changes
        from agentcli.tui.pages.diff import DiffPage

        scope = ARGUMENTS.get(arguments)
        if scope is None:
            raise AgentError(USAGE)
        engine = await self._ready()
        copy = self._app.surroundings.copy
        await self._asked(DiffPage(lambda wanted: load_changes(engine, wanted), copy, scope, self._chat.palette))

    async def _edit_memory(self, name: str) -> None:
        from agentcli.commands.memory_files import find_file, read_file, write_file
        from agentcli.interactive.editor import NotWritten
        from agentcli.tui.prompt.external import edit_outside

        engine = await self._ready()
        file = await asyncio.to_thread(find_file, engine, name)
        before = await asyncio.to_thread(read_file, file)
        written = await edit_outside(self._app, before, os.environ, engine.cwd)
        if isinstance(written, NotWritten):
            raise AgentError(written.reason)
        self.say(await asyncio.to_thread(write_file, file, before, written.text))

    async def _tasks(self) -> None:
        from agentcli.tui.pages.tasks import TasksPage

        engine = await self._ready()

        def output(task_id: str) -> list[str]:
            return plain_text(engine.background.output(task_id)).splitlines()[-200:]

        page = TasksPage(engine.background.tasks, output, self._chat.palette)

        def refresh() -> None:
            if page.is_open:
                page.update_tasks(engine.background.tasks)

        refreshing = self._app.set_interval(1.0, refresh)
        try:
            picked = await self._asked(page)
        finally:
            refreshing.stop()
        if picked is not None:
            await engine.background.stop(picked[1])

    async def _help(self, keys_first: bool = False) -> None:
        from agentcli.commands.manual import READ_ON, page_lines
        from agentcli.commands.registry import COMMANDS
        from agentcli.tui.keys import help_rows
        from agentcli.tui.pages.help import HelpPage

        keymap = self._app.preferences.keymap or {}
        commands = [("Commands", command.usage, command.summary) for command in COMMANDS]
        keys = [*help_rows(keymap), *(("Read on", where, text) for where, text in READ_ON)]
        more = {command.usage: page_lines(command) for command in COMMANDS}
        page = HelpPage(commands, keys, self._chat.palette, more, commands_first=not keys_first)
        picked = await self._asked(page)
        if picked is not None:
            self._chat.prompt.load(Draft(f"{picked.split()[0]} "))

    async def _config(self) -> None:
        from agentcli.assemble import settings_for
        from agentcli.tui.pages.settings import SettingsPage

        if self._app.options is None:
            return
        settings = await asyncio.to_thread(settings_for, self._app.options)
        files = self._app.preferences.settings_files
        change = await self._asked(SettingsPage(settings.describe(), files, self._chat.palette))
        if change is not None:
            where = await asyncio.to_thread(self._app.preferences.keep, change.key, change.value, change.scope)
            self.say(f"{change.key} is saved ({where}).")
            self._app.setting_changed(change.key, change.value)

    # --------------------------------------------------------------------------------------------------- sessions

    async def _resume(self) -> None:
        from agentcli.session.find import list_sessions
        from agentcli.tui.pickers.session import SessionPicker

        state_dir, cwd = self._app.preferences.paths.state_dir, self._app.preferences.cwd
        if state_dir is None:
            raise AgentError("There is no folder for sessions: no home folder is known.")
        picked = await self._asked(
            SessionPicker(lambda: list_sessions(state_dir, cwd), last_lines_of, self._chat.palette)
        )
        if picked is not None:
            await self._resume_found(picked.session_id)
        elif self._chat.session.engine is None:
            # Asked for at the start (`--resume`), and then not wanted: a new one.
            await self._app.open_session()

    async def _resume_found(self, wanted: str) -> None:
        engine = self._chat.session.engine
        if engine is not None and engine.session_id == wanted:
            self._chat.hint("That is this session")
            return
        await self._app.open_session(resume=wanted)

    async def _clear(self, _arguments: str) -> None:
        await self._app.open_session()

    async def _connect(self) -> None:
        await self._ready()
        await self._app.welcoming.open()

    async def _login(self, _arguments: str) -> None:
        raise AgentError("/login takes nothing: it asks for the key, without showing it.")

    async def _logout(self, _arguments: str) -> None:
        self.say(await self._app.welcoming.forget())

    async def _exit(self, _arguments: str) -> None:
        self._app.leave()

    # ---------------------------------------------------------------------------------------------------- copying

    async def _find(self, query: str) -> None:
        self._chat.finder.open(query)

    async def _copy(self, arguments: str) -> None:
        """`/copy` the last answer, `/copy 2` the one before, `/copy code` its last code block, `/copy code 2` …"""
        from agentcli.tui.blocks.markdown import code_blocks

        answers = self._chat.transcript.answers()
        found = re.fullmatch(r"(code)?\s*(\d{1,6})?", arguments.strip())
        if found is None:
            raise AgentError("/copy takes a number, code, or code and a number: /copy code 2")
        wants_code, number = found.group(1) is not None, found.group(2) or "1"
        if not answers:
            raise AgentError("There is no answer to copy yet.")
        if wants_code:
            pieces = [code for answer in answers for _language, code in code_blocks(answer)]
            what = "code block"
        else:
            pieces, what = answers, "answer"
        place = int(number)
        if not 1 <= place <= len(pieces):
            raise AgentError(f"There is no {what} {place} from the end; there {_are(len(pieces), what)}.")
        await self._copied(pieces[-place], f"the last {what}" if place == 1 else f"the {what} {place} from the end")

    async def _copied(self, text: str, what: str) -> None:
        self._chat.hint(f"{what[0].upper()}{what[1:]}: {await self._app.surroundings.copy(text)}")


def _are(count: int, what: str) -> str:
    return f"is one {what}" if count == 1 else f"are {count} {what}s"


def last_lines_of(session: SessionInfo) -> list[str]:
    """What a session ended with, for the picker's preview."""
    from agentcli.session.load import load_session

    lines: list[str] = []
    for message in load_session(session.path).messages[-6:]:
        who = "❯ " if message.origin.value in ("prompt", "queued") else "  "
        if text := plain_text(message.text).strip():
            lines += [f"{who}{line}" for line in text.splitlines()[:12]]
    return lines
