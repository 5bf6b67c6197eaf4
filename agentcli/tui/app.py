"""The app: one screen, its theme, the engine behind it, and the terminal around it.

Paints first. The engine is put together in a thread after the first frame, so whatever is sent before it is there
waits for it; the SDK is imported later still.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from contextvars import Context, copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from textual import events, on
from textual.app import App
from textual.binding import BindingType
from textual.screen import ModalScreen, Screen
from textual.worker import Worker, WorkerError

from agentcli import __version__
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.terminal import Terminal
from agentcli.interactive.draft import Draft
from agentcli.interactive.drafts import DraftStore, drafts_folder
from agentcli.interactive.history import History, history_path
from agentcli.interactive.late_completion import LateCompletions
from agentcli.interactive.resource_completion import MentionSource
from agentcli.tui.at_work import KnowsItsWork
from agentcli.tui.chat import ChatScreen
from agentcli.tui.cursor_cell import cursor_cell
from agentcli.tui.keys import app_bindings, interrupting_keys
from agentcli.tui.model import WELCOME, Above, Add, Remove, WelcomeItem
from agentcli.tui.prompt.box import PromptBox, PromptParts
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.sheets.sheet import QuitWanted, Sheet
from agentcli.tui.startup import garbage_collection
from agentcli.tui.startup.model_connection import ModelConnection
from agentcli.tui.startup.preferences import Preferences
from agentcli.tui.status.data import shown_path
from agentcli.tui.terminal.driver import AgentDriver, TakenOver
from agentcli.tui.terminal.freeing import Freed
from agentcli.tui.terminal.lookkeeping import keep_look
from agentcli.tui.terminal.surroundings import Surroundings
from agentcli.tui.terminal.translation import BackgroundColour
from agentcli.tui.textual_internals import driver_of, end_with, is_closing, may_display, strips_of
from agentcli.tui.theme.dressing import Dressing
from agentcli.tui.theme.palette import Palette
from agentcli.tui.theme.themes import Given, ThemeError, apply_theme, begin_with_theme, theme_folders, watch_themes
from agentcli.tui.transcript.compositing import QuickUpdate

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options
    from agentcli.commands.base import Command
    from agentcli.mcp.servers import McpServers
    from agentcli.tui.start import Start
    from agentcli.tui.startup.guide import Guide

LATEST_TAKE_OVER = 2.5
LAST_BLOCKS = 500
"""Blocks among which the last prompt is looked for when the app ends."""
LONG_WORK_SECONDS = 10.0
"""Work that took longer calls when it is done and nobody looks."""
ECHOED_SECONDS = 0.004
"""From a character that the terminal shows already to the frame that has it."""


class AgentApp(KnowsItsWork, App[int], inherit_bindings=False):
    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    INLINE_PADDING = 0
    BINDINGS: ClassVar[list[BindingType]] = list(app_bindings())

    def __init__(self, start: Start, preferences: Preferences, **rest: Any) -> None:
        super().__init__(ansi_color=bool(preferences.environ.get("NO_COLOR")) or None, **rest)
        self.options: Options | None = None
        """None until the flags are checked, which is after the first frame."""
        self.failure: Exception | None = None
        self.farewell = ""
        self.preferences = preferences
        self._start_with = start
        terminal = Terminal.from_environ(preferences.environ, sys.platform)
        self.surroundings = Surroundings(terminal, self.write_to_terminal, preferences.cwd, preferences.notifications)
        folders = theme_folders(preferences.paths.config_dir)
        self.dressing = Dressing(folders, preferences.theme, preferences.environ, self._plugin_themes)
        # Before the style sheet is read, which names the theme's own variables.
        begin_with_theme(self, self.dressing.textual)
        paths, cwd = preferences.paths, preferences.cwd
        self.drafts = DraftStore(drafts_folder(paths.state_dir, cwd))
        self._mentions = MentionSource(self._servers)
        parts = PromptParts(
            history=History(history_path(paths.state_dir, cwd)),
            drafts=self.drafts,
            files=self._mentions,
            commands=self._commands,
            choices=self._completions,
            late_choices=LateCompletions(lambda: self.chat.session.engine),
            keymap=preferences.keymap or {},
            cwd=cwd,
            environ=preferences.environ,
        )
        self.chat = ChatScreen(self, self.dressing.palette, PromptBox(parts))
        self.welcoming = ModelConnection(self)
        self._watching: Worker[None] | None = None
        self._guide: Guide | None = None
        self._own_context = Context()
        self._interrupting = interrupting_keys(preferences.keymap or {})
        self._is_echoed = False
        """Whether the terminal shows what was typed directly and is not painted yet."""
        self._taken_over = asyncio.Event()
        self._opening = asyncio.Lock()
        self.options_ready = asyncio.Event()
        self.engine_ready = asyncio.Event()

    # ------------------------------------------------------------------------------------------------- life cycle

    def on_mount(self) -> None:
        self._own_context = copy_context()
        if self.preferences.keymap:
            self.set_keymap({id: keys for id, keys in self.preferences.keymap.items() if id.startswith("screen.")})
        self.push_screen(self.chat)
        if (tour := self._start_with.tour) is not None:
            from agentcli.tui.startup.guide import Guide

            self._guide = Guide(self, tour, self._start_with.playing)
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        self.chat.apply([Add(WelcomeItem(id=WELCOME, version=__version__, lines=self._welcome()))])
        self.run_worker(self._open_or_leave(), exit_on_error=False, group="engine")
        self.surroundings.begin(self._restores)
        if not self.dressing.is_unknown:
            self._tell_theme_problem()
        self._follow_theme_file()
        if self._guide is not None:
            self.run_worker(self._guide.run(), exit_on_error=False, group="tour")

    async def _open_or_leave(self) -> None:
        """Without an engine nothing can ever be sent, so what prevents it ends the app. What was typed is kept."""
        try:
            await self._open()
        except Exception as error:  # noqa: BLE001 -- told by whoever runs the app, once the terminal is as it was
            self.failure = error
            self.leave(2)

    async def _show_end(self) -> None:
        """Of the conversation that is gone on with: reading all of it takes much longer."""
        start, state = self._start_with, self.preferences.paths.state_dir
        if state is not None and (start.resume or start.continue_latest):
            from agentcli.tui.resume import end_of_session

            items = await asyncio.to_thread(end_of_session, state, self.preferences.cwd, start.resume)
            if items and self.chat.session.engine is None:
                self.chat.apply([Remove(WELCOME)])
                self.chat.session.preview(items)

    async def _open(self) -> None:
        await self._show_end()
        if (draft := await asyncio.to_thread(self.drafts.load)) is not None and self.chat.prompt.is_empty:
            self.chat.prompt.load(draft)
        options = await asyncio.to_thread(self._start_with.make_options)
        with contextlib.suppress(TimeoutError):
            # What was typed before there was a question must not answer it. Before a tour nothing is asked.
            alone = self.is_headless or self._start_with.tour is not None
            await asyncio.wait_for(self._taken_over.wait(), 0 if alone else LATEST_TAKE_OVER)
        if not await self._may_go_on(options):
            self.leave()
            return
        self.options = options
        self.options_ready.set()
        if self._start_with.pick_session:
            self.chat.actions.run("resume")
        else:
            async with self._opening:
                await self._start_engine(options)
        if self._start_with.prompt:
            self.chat.send(Draft(self._start_with.prompt))

    @on(TakenOver)
    def _keys_are_ours(self) -> None:
        self._taken_over.set()

    @on(Freed)
    def _freed(self) -> None:
        text = (
            "A UI handler hung and was stopped. The session continues; stuck.log in the state folder has the details."
        )
        self.chat.apply(self.chat.session.presenter.note(text, "warning"))

    async def _may_go_on(self, options: Options) -> bool:
        from agentcli.config.trust import TrustStore
        from agentcli.tui.dialogs.trust import TrustDialog

        if options.trust:
            return True
        store = TrustStore.of(self.preferences.environ)
        state = await asyncio.to_thread(store.state, self.preferences.cwd)
        if not state.needs_answer:
            return True
        dialog = TrustDialog(state)
        dialog.typed = lambda: self.chat.prompt.last_typed
        answer = await self.ask_on_screen(dialog)
        if answer == "trust":
            await asyncio.to_thread(store.trust, state)
        return answer in ("trust", "restricted")

    async def _start_engine(self, options: Options) -> None:
        from agentcli.interactive.sources import IndexedFiles
        from agentcli.tui.resume import past_of

        try:
            engine = await self.welcoming.new_engine(options)
        except AgentError as error:
            if self.chat.session.engine is not None:
                raise
            self.failure = error
            self.leave(2)
            return
        past, earlier = await asyncio.to_thread(past_of, engine)
        first = self.chat.session.engine is None and not self.is_headless
        if first:
            garbage_collection.stays()
        if past:
            self.chat.apply([Remove(WELCOME)])
        self.welcoming.engine_changed()
        if self.chat.session.engine is None:
            due = self.chat.session.withdraw_due() if self.welcoming.nobody_answers else []
            self.chat.session.open(engine, past)
            if self.welcoming.nobody_answers:
                self.welcoming.begin(due)
        else:
            await self.chat.session.replace(engine, past)
            garbage_collection.session_left()
            if not past:
                greeting = WelcomeItem(id=WELCOME, version=__version__, lines=self._welcome())
                self.chat.apply([Above((greeting,))])
        if engine.plugins is not None:
            engine.plugins.on_change = self._plugins_changed
        self.engine_ready.set()
        has_more = bool(earlier) or engine.earlier_part is not None
        self.chat.finder.expect_more(has_more)
        if has_more:
            self.run_worker(self._show_earlier(engine, earlier), exit_on_error=False, group="earlier")
        await self._mentions.use(IndexedFiles(engine.files.index))
        self.run_worker(self._warm(engine, first), exit_on_error=False, group="warm")

    async def _show_earlier(self, engine: Engine, earlier: list[ev.Event]) -> None:
        """Show the rest of a long conversation, whose first prompt does not wait for it."""
        from agentcli.tui.resume import EarlierPast

        async for operation in EarlierPast(engine, earlier).operations():
            if self.chat.session.engine is not engine:
                return
            self.chat.apply([operation])
        if self.chat.session.engine is engine:
            self.chat.finder.expect_more(False)

    async def _warm(self, engine: Engine, first: bool) -> None:
        from agentcli.tui.blocks.answer import warm_up

        await asyncio.to_thread(warm_up)
        with contextlib.suppress(AgentError):
            await engine.warm()
        if self.dressing.is_unknown:
            self.dressing.is_unknown = False
            self._tell_theme_problem()
        if first:
            garbage_collection.settle()
            self.set_interval(garbage_collection.AWAY_SECONDS, self._collect_while_away)

    def _collect_while_away(self) -> None:
        if monotonic() - self.chat.prompt.last_typed > garbage_collection.AWAY_SECONDS:
            garbage_collection.look_through_all()

    async def open_session(self, resume: str | None = None) -> None:
        from agentcli.assemble.options import another_session

        if self.options is None:
            return
        async with self._opening:
            self.chat.session.hold(True)
            try:
                await self._start_engine(another_session(self.options, resume))
            finally:
                self.chat.session.hold(False)

    @property
    def palette(self) -> Palette:
        return self.chat.palette

    @property
    def waits_for_session(self) -> bool:
        return self._start_with.pick_session and self.chat.session.engine is None

    @property
    def has_demo(self) -> bool:
        return self._start_with.has_demo

    def leave(self, code: int = 0) -> None:
        self.run_worker(self._leave(code), exit_on_error=False, group="leave", exclusive=True)

    def _fatal_error(self) -> None:
        """An exception that nobody caught: the terminal is put back first, and the file with the details is told."""
        self.failure = self.failure or self._exception
        self._close_messages_no_wait()

    async def _leave(self, code: int) -> None:
        if queued := self.chat.session.withdraw_queued():
            self.chat.give_back(queued)
        self.drafts.flush()
        keep_look(self.chat, self.preferences.environ, self.surroundings.terminal.colours)
        from agentcli.interactive.wording import farewell

        if (engine := self.chat.session.engine) is not None:
            self.farewell = await farewell(engine, continues=self._start_with.tour is None)
        for worker in [one for one in self.workers if one.group == "earlier"]:
            if self.preferences.exit_transcript == "all":
                with contextlib.suppress(WorkerError):
                    await worker.wait()
        if self._start_with.tour is None and (kept := self._exit_text()):
            self.farewell = f"{kept}\n\n{self.farewell}".rstrip("\n")
        await self._mentions.aclose()
        await self.chat.session.close()
        self.exit(code)

    def _exit_text(self) -> str:
        from agentcli.tui.terminal.exit_text import exit_text

        self.chat.session.catch_up()
        wanted, transcript = self.preferences.exit_transcript, self.chat.transcript
        blocks = transcript.blocks() if wanted == "all" else transcript.end_blocks(LAST_BLOCKS)
        try:
            return exit_text(blocks, wanted, self.size.width)
        except Exception:
            import logging

            logging.getLogger("agentcli").exception("the last answer could not be kept on the screen")
            return ""

    def _welcome(self) -> tuple[str, ...]:
        if (tour := self._start_with.tour) is not None:
            return tour.welcome
        where = shown_path(self.preferences.cwd)
        return (where, "/ commands · @ files · ! shell · ? keys · Esc interrupts")

    def _commands(self, typed: str) -> Sequence[Command]:
        from agentcli.interactive.sources import registered_commands

        return registered_commands(typed, self.chat.session.engine)

    def _servers(self) -> McpServers | None:
        engine = self.chat.session.engine
        return engine.mcp if engine is not None else None

    def _completions(self, command: str) -> list[tuple[str, str]]:
        from agentcli.commands.registry import completions

        return completions(command, self.chat.session.engine, self.chat.actions.front_end)

    # ---------------------------------------------------------------------------------------------------- screens

    async def ask_on_screen(self, screen: Screen[Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(value: Any) -> None:
            if not future.done():
                future.set_result(value)

        await self.push_screen(screen, answered)
        return await future

    def close_screen(self, dialog: ModalScreen[Any]) -> None:
        """Take a dialog away, with whatever stands on it; its callback is not called."""
        while dialog in self.screen_stack:
            self.pop_screen()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if (cell := cursor_cell(screen)) is not None:
            self.cursor_position = self.size.clamp_offset(cell)
        driver = self._painting_driver()
        strips = renderable.strips if isinstance(renderable, QuickUpdate) else strips_of(renderable)
        if strips is None or driver is None:
            super()._display(screen, renderable)
            return
        try:
            driver.paint(strips, self.size, self.cursor_position, synchronized=self._sync_available)
        except Exception as error:  # noqa: BLE001 -- ends the app with the terminal in order
            self._handle_exception(error)
        finally:
            self.post_display_hook()

    def _painting_driver(self) -> AgentDriver | None:
        """The driver, if it gets cells now and not the bytes of frames."""
        driver = driver_of(self)
        may_paint = self.preferences.repaint == "changes" and may_display(self)
        return driver if may_paint and isinstance(driver, AgentDriver) else None

    def on_resize(self, event: events.Resize) -> None:
        if isinstance(driver := driver_of(self), AgentDriver):
            driver.resized(event.size)

    def action_redraw(self) -> None:
        if isinstance(driver := driver_of(self), AgentDriver):
            driver.forget_screen()
        self.refresh(repaint=True, layout=True)

    def action_suspend(self) -> None:
        self.action_suspend_process()

    def action_leave_or_copy(self) -> None:
        """Ctrl+C: in a dialog it copies what is selected there, or closes it as Esc does; elsewhere see the chat."""
        screen = self.screen
        if screen is self.chat:
            self.chat.leave_or_copy()
        elif text := screen.get_selected_text():
            self.chat.actions.copy_selection(text)
            screen.clear_selection()
        elif isinstance(screen, Sheet):
            if self.chat.closes_again("ctrl+c"):
                self.leave()
            else:
                screen.leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave_dialog":
            return isinstance(self.screen, Sheet) and not self.screen.typed_text
        return super().check_action(action, parameters)

    def action_leave_dialog(self) -> None:
        if self.chat.closes_again("ctrl+d"):
            self.leave()
        elif isinstance(self.screen, Sheet):
            self.screen.tell("Ctrl+D again quits")

    @on(QuitWanted)
    def _quit_wanted(self) -> None:
        self.leave()

    # ------------------------------------------------------------------------------------------------------ keys

    @property
    def _takes_keys_directly(self) -> bool:
        """Whether nothing is in the queue that comes before a key, and keys are for the conversation."""
        stack = self.screen_stack
        return not self.has_work and self.app_focus and stack[-1:] == [self.chat] and not is_closing(self)

    def type_directly(self, event: events.Key, *, alone: bool) -> bool:
        """Put a character into the prompt, past all queues, if it would be the next thing there anyway."""
        if not self._takes_keys_directly:
            return False
        editor = self.chat.focused
        try:
            if not isinstance(editor, PromptEditor) or not editor.would_type(event):
                return False
            if alone and (driver := self._painting_driver()) is not None and (echo := editor.echo(event)) is not None:
                self._is_echoed = driver.echo(*self.cursor_position, *echo)
            editor.type_directly(event, is_echoed=self._is_echoed)
        except Exception as error:  # noqa: BLE001 -- what Textual does with an exception of a handler
            end_with(self, error)
        return True

    def interrupt_directly(self, event: events.Key) -> bool:
        """What the binding of the screen does while something runs, without the way through the queue."""
        if event.key not in self._interrupting or not self._takes_keys_directly or not self.chat.session.busy:
            return False
        try:
            self._own_context.run(self.chat.action_interrupt_work)
        except Exception as error:  # noqa: BLE001 -- as above
            end_with(self, error)
        return True

    def paint_typed(self) -> None:
        """Paint what was typed directly: in this turn, or soon if the terminal shows it already. A terminal takes what
        was written sooner when nothing else is done right behind it."""
        editor = self.chat.focused
        if not isinstance(editor, PromptEditor):
            return
        is_echoed, self._is_echoed = self._is_echoed, False
        try:
            if is_echoed:
                asyncio.get_running_loop().call_later(ECHOED_SECONDS, self._paint_editor, editor)
            else:
                editor.paint_typed()
            editor.tell_of_typed()
        except Exception as error:  # noqa: BLE001 -- as above
            end_with(self, error)

    def _paint_editor(self, editor: PromptEditor) -> None:
        try:
            if editor.is_attached and not is_closing(editor):
                editor.paint_typed()
        except Exception as error:  # noqa: BLE001 -- as above
            end_with(self, error)

    # ----------------------------------------------------------------------------------------------------- themes

    def try_theme(self, name: str) -> Palette:
        self.dressing.wear(name)
        palette = self._dress()
        self._tell_theme_problem()
        return palette

    def _plugin_themes(self) -> Given:
        chat: ChatScreen | None = getattr(self, "chat", None)  # the theme is read before there is one
        engine = chat.session.engine if chat is not None else None
        return engine.plugins.themes() if engine is not None and engine.plugins is not None else {}

    def _plugins_changed(self) -> None:
        """A theme of a plugin may be there now, or look different."""
        if self.dressing.setting in self._plugin_themes():
            self._reread_theme()

    def _tell_theme_problem(self) -> None:
        if self.dressing.problem:
            self.chat.apply(self.chat.session.presenter.note(self.dressing.problem, "warning"))

    def use_theme(self, name: str) -> None:
        self.dressing.check(name)
        self.try_theme(name)

    def _dress(self) -> Palette:
        dressing = self.dressing
        apply_theme(self, dressing.textual)
        palette = dressing.palette
        self.chat.set_palette(palette)
        for screen in self.screen_stack:
            if isinstance(screen, Sheet):
                screen.set_palette(palette)
        self._follow_theme_file()
        return palette

    def _follow_theme_file(self) -> None:
        """A theme of the person's own is read again when its file changes."""
        if self._watching is None and (folder := self.dressing.own_folder) is not None:
            work = watch_themes(folder, self._reread_theme)
            self._watching = self.run_worker(work, exit_on_error=False)

    def _reread_theme(self) -> None:
        """A file that is broken while it is being written changes nothing."""
        try:
            self.use_theme(self.dressing.setting)
        except ThemeError as error:
            self.chat.apply(self.chat.session.presenter.note(str(error), "warning"))

    @on(BackgroundColour)
    def _background_known(self, event: BackgroundColour) -> None:
        before = self.dressing.palette
        self.dressing.learn_background(event.rgb, event.is_light)
        if self.dressing.palette != before:
            self._dress()

    # ---------------------------------------------------------------------------------------- the terminal around

    def write_to_terminal(self, text: str) -> None:
        driver = driver_of(self)
        if text and driver is not None and not self.is_headless:
            driver.write(text)

    def _restores(self, sequence: str) -> None:
        """To be written when the terminal is put back, whatever the reason."""
        if (restore := getattr(driver_of(self), "restore", None)) is not None:
            restore.also(sequence)

    def call_for_attention(self, text: str) -> None:
        if not self.app_focus:
            self.surroundings.notify(text)

    def work_ended(self, result: ev.Result, seconds: float) -> None:
        if seconds >= LONG_WORK_SECONDS:
            self.call_for_attention("Failed" if result.is_error else "Done")

    def on_app_blur(self, _event: events.AppBlur) -> None:
        self.drafts.flush()
