"""The Textual app: owns the chat screen, opens dialogs over it, and quits.

Paints first. `SessionOpener` assembles the engine in a thread after the first frame, so prompts sent earlier wait for
it; `ThemeControl` has the theme. Its base class, `PaintedApp`, has the driver write the frames (only cells that the
terminal does not show yet, the cursor where text goes) and ends in order after an uncaught exception.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.console import RenderableType
from textual import events, on
from textual.app import App
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, TextArea
from textual.worker import WorkerError

from agentcli import __version__
from agentcli.core import events as ev
from agentcli.core.terminal import Terminal
from agentcli.interactive.completion import Completions
from agentcli.interactive.drafts import DraftStore, History, drafts_folder, history_path
from agentcli.tui.chat import ChatScreen
from agentcli.tui.keys import app_bindings
from agentcli.tui.model import WELCOME, Add, WelcomeItem
from agentcli.tui.prompt.box import PromptBox
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.screens.sheet import Sheet
from agentcli.tui.startup.preferences import Preferences
from agentcli.tui.startup.session_opener import ModelConnection, SessionOpener
from agentcli.tui.status.data import show_path
from agentcli.tui.terminal.driver import TakenOver
from agentcli.tui.terminal.input import BackgroundColour
from agentcli.tui.terminal.output import Surroundings
from agentcli.tui.textual_internals import QuickUpdate, use_quick_compositor
from agentcli.tui.theme.palette import Palette
from agentcli.tui.theme.themes import begin_with_theme
from agentcli.tui.theme_control import ThemeControl, keep_look

if TYPE_CHECKING:
    from agentcli.tui.start import Start
    from agentcli.tui.startup.guide import Guide
    from agentcli.tui.terminal.driver import AgentDriver

T = TypeVar("T")


class PaintedApp(App[T]):
    terminal_driver: AgentDriver | None = None
    """Set by the driver itself; None in tests without a terminal."""
    failure: Exception | None = None
    """What ended the app."""

    def get_default_screen(self) -> Screen[Any]:
        screen = super().get_default_screen()
        use_quick_compositor(screen)
        return screen

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if (cell := find_cursor(screen)) is not None:
            self.cursor_position = self.size.clamp_offset(cell)
        if self.terminal_driver is None:
            super()._display(screen, renderable)
            return
        try:
            if isinstance(renderable, QuickUpdate):
                self.terminal_driver.paint(renderable.strips, self.size, self.cursor_position)
        except Exception as error:  # noqa: BLE001 -- ends the app with the terminal in order
            self.fail(error)
        finally:
            self.post_display_hook()

    def _handle_exception(self, error: Exception) -> None:
        """Keep the traceback off the terminal: the caller raises `failure` after the terminal is restored."""
        self.failure = self.failure or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self.panic()

    def fail(self, error: Exception) -> None:
        """End the app with an error raised outside of its handlers."""
        self._handle_exception(error)

    def on_resize(self, event: events.Resize) -> None:
        if self.terminal_driver is not None:
            self.terminal_driver.resized(event.size)

    def action_redraw(self) -> None:
        if self.terminal_driver is not None:
            self.terminal_driver.forget_screen()
        self.refresh(repaint=True, layout=True)


def find_cursor(screen: Screen[Any]) -> Offset | None:
    """Cell of the visible cursor, or of the selected row of a sheet, on a laid out screen; None if there is neither.

    The terminal's own cursor is hidden, but input methods and screen readers follow it. It is looked for with every
    frame, since a layout can move the focused widget without notifying it."""
    focused = screen.focused
    if isinstance(focused, PromptEditor):
        return focused.cursor_screen_offset
    if isinstance(focused, TextArea):
        # The editor's own value dates from the last key; a resize has wrapped the text again since.
        place = focused.wrapped_document.location_to_offset(focused.cursor_location)
        return focused.content_region.offset + place - focused.scroll_offset + Offset(focused.gutter_width, 0)
    if isinstance(focused, Input):
        # Textual adds one cell at the end of the text.
        return focused.cursor_screen_offset - Offset(int(focused.cursor_at_end), 0)
    if isinstance(screen, Sheet):
        with suppress(NoMatches):  # some of its widgets are not mounted yet, or already removed
            return screen.cursor_cell
    return None


LONG_WORK_SECONDS = 10.0
"""Work that took longer sends a notification at its end if the terminal is not focused."""


_SIGNAL_CODE = 128
"""Exit codes from here on are those of signals, which leave little time."""


class AgentApp(PaintedApp[int], inherit_bindings=False):
    CSS_PATH = "style.tcss"
    ENABLE_COMMAND_PALETTE = False
    INLINE_PADDING = 0
    BINDINGS: ClassVar[list[BindingType]] = list(app_bindings())

    def __init__(self, start: Start, preferences: Preferences, **rest: Any) -> None:
        super().__init__(ansi_color=bool(preferences.environ.get("NO_COLOR")) or None, **rest)
        self.farewell = ""
        """Text to print after the terminal is restored."""
        self._exit_code = 0
        self.preferences = preferences
        self._start_with = start
        terminal = Terminal.from_environ(preferences.environ, sys.platform)
        self.surroundings = Surroundings(terminal, self.write_to_terminal, preferences.cwd, preferences.notifications)
        self.themes = ThemeControl(self)
        # Before the style sheet is read, which names the theme's own variables.
        begin_with_theme(self, self.themes.active.textual)
        paths, cwd = preferences.paths, preferences.cwd
        self.drafts = DraftStore(drafts_folder(paths.state_dir, cwd))
        self.completions = Completions(lambda: self.chat.session.engine, lambda: self.chat.actions.front_end)
        prompt = PromptBox(
            History(history_path(paths.state_dir, cwd)),
            self.drafts,
            self.completions,
            keymap=preferences.keymap or {},
            cwd=cwd,
            environ=preferences.environ,
        )
        self.chat = ChatScreen(self, self.themes.active.palette, prompt)
        self.model_connection = ModelConnection(self)
        self._guide: Guide | None = None
        self.opener = SessionOpener(self, start)

    # ------------------------------------------------------------------------------------------------- life cycle

    def on_mount(self) -> None:
        if self.preferences.keymap:
            self.set_keymap({id: keys for id, keys in self.preferences.keymap.items() if id.startswith("screen.")})
        self.push_screen(self.chat)
        if (tour := self._start_with.tour) is not None:
            from agentcli.tui.startup.guide import Guide

            self._guide = Guide(self, tour, self._start_with.playing)
        self.call_after_refresh(self._note_painted)

    def _note_painted(self) -> None:
        self.chat.apply([Add(self.welcome_item())])
        self.run_worker(self._open_or_leave(), exit_on_error=False, group="engine")
        self.surroundings.begin(self._add_restore)
        self.themes.begin()
        if self._guide is not None:
            self.run_worker(self._guide.run(), exit_on_error=False, group="tour")

    def apply_settings(self) -> None:
        """Use changed settings of the app itself."""
        self.run_worker(self._apply_settings(), exit_on_error=False, group="settings")

    async def _apply_settings(self) -> None:
        from agentcli.tui.startup.preferences import load_preferences

        start, before = self._start_with, self.preferences
        fresh = await asyncio.to_thread(load_preferences, start.cwd, start.environ, start.settings, start.theme)
        now = self.preferences = before.with_live(fresh)
        self.surroundings.notifications = now.notifications
        self.chat.activity.moving = not now.reduced_motion
        if now.theme != before.theme and now.theme != self.themes.active.setting:
            self.themes.try_out(now.theme)
        if now.status_line != before.status_line:
            await self.chat.status.use(now.status_command(__version__))

    async def _open_or_leave(self) -> None:
        """Open the first session; quit if that fails, because nothing could be sent then. The draft is kept."""
        try:
            await self.opener.open_first()
        except Exception as error:  # noqa: BLE001 -- `start.run` raises it after the terminal is restored
            self.failure = error
            self.leave(2)

    @on(TakenOver)
    def _keys_taken_over(self) -> None:
        self.opener.keys_taken_over()

    @property
    def palette(self) -> Palette:
        return self.chat.palette

    @property
    def has_demo(self) -> bool:
        return self._start_with.has_demo

    def leave(self, code: int = 0) -> None:
        """Close the session and exit; a second call, such as that of a signal, only changes the exit code."""
        self._exit_code = code
        if not any(worker.group == "leave" and not worker.is_finished for worker in self.workers):
            self.run_worker(self._leave(), exit_on_error=False, group="leave")

    async def _leave(self) -> None:
        if queued := self.chat.session.withdraw_queued():
            self.chat.give_back(queued)
        self.drafts.flush()
        keep_look(self.chat, self.preferences.environ, self.surroundings.terminal.colours)
        from agentcli.interactive.wording import describe_ended_commands, farewell

        if (engine := self.chat.session.engine) is not None:
            self.farewell = describe_ended_commands(engine)
            if self._exit_code >= _SIGNAL_CODE and self.chat.session.busy:
                engine.session.store.mark_cut_off()
        if self.preferences.exit_transcript == "all" and self._exit_code < _SIGNAL_CODE:
            for worker in [one for one in self.workers if one.group == "earlier"]:
                with suppress(WorkerError):
                    await worker.wait()
        await self.completions.aclose()
        await self.chat.session.close()
        if engine is not None and self._start_with.tour is None:
            self.farewell = await farewell(engine, self.farewell)
        if self._start_with.tour is None and (kept := self._keep_transcript()):
            self.farewell = f"{kept}\n\n{self.farewell}".rstrip("\n")
        self.exit(self._exit_code)

    def _keep_transcript(self) -> str:
        from agentcli.tui.terminal.exit_text import keep_transcript

        self.chat.session.catch_up()
        return keep_transcript(self.chat.transcript, self.preferences.exit_transcript, self.size.width)

    def welcome_item(self) -> WelcomeItem:
        """The greeting at the top of a new session."""
        tour, folder = self._start_with.tour, show_path(self.preferences.cwd)
        usual = (folder, "/ commands · @ files · ! shell · ? keys · Esc interrupts")
        lines = usual if tour is None else tour.welcome
        return WelcomeItem(id=WELCOME, version=__version__, lines=lines)

    # ---------------------------------------------------------------------------------------------------- screens

    async def ask_on_screen(self, screen: Screen[Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(value: Any) -> None:
            if not future.done():
                future.set_result(value)

        await self.push_screen(screen, answered)
        return await future

    def close_screen(self, dialog: ModalScreen[Any]) -> None:
        """Close a dialog and all screens above it, without calling its callback."""
        while dialog in self.screen_stack:
            self.pop_screen()

    def action_suspend(self) -> None:
        self.action_suspend_process()

    def action_leave_or_copy(self) -> None:
        """Ctrl+C: the chat screen's; in a dialog copy the selection, else close it, or quit on a second press."""
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
            self.screen.show_notice("Ctrl+D again quits")

    @on(BackgroundColour)
    def _take_background(self, event: BackgroundColour) -> None:
        self.themes.learn_background(event.rgb, event.is_light)

    # --------------------------------------------------------------------------------------------------- terminal

    def write_to_terminal(self, text: str) -> None:
        if text and self.terminal_driver is not None:
            self.terminal_driver.write(text)

    def _add_restore(self, sequence: str) -> None:
        """Have this sequence written when the terminal is restored."""
        if self.terminal_driver is not None:
            self.terminal_driver.restore.also(sequence)

    def call_for_attention(self, text: str) -> None:
        if not self.app_focus:
            self.surroundings.notify(text)

    def work_ended(self, result: ev.Result, seconds: float) -> None:
        if seconds >= LONG_WORK_SECONDS:
            self.call_for_attention("Failed" if result.is_error else "Done")

    def on_app_blur(self, _event: events.AppBlur) -> None:
        self.drafts.flush_in_thread()
