"""The main screen: transcript, activity line, prompt, status line.

What commands do with the screen is in `front_end`; calls to the engine are in `session`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from agentcli import __version__
from agentcli.commands.front_end import Choice
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.text.plaintext import is_lone_key, plain_line
from agentcli.interactive.drafts import Draft
from agentcli.interactive.submission import parse_draft, sends_prompt
from agentcli.interactive.view import Question
from agentcli.tui.blocks.items import make_block
from agentcli.tui.front_end import AppFrontEnd
from agentcli.tui.keys import screen_bindings
from agentcli.tui.model import Activity, Facts, Operation
from agentcli.tui.modes import MODE_WORDS
from agentcli.tui.prompt.box import PromptBox
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.session import TuiSession
from agentcli.tui.status.data import branch_of
from agentcli.tui.status.lines import ActivityLine, StatusLine
from agentcli.tui.textual_internals import paint_now, use_quick_compositor
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.findbar import FindBar
from agentcli.tui.transcript.widget import Transcript

if TYPE_CHECKING:
    from agentcli.commands.base import Command
    from agentcli.tui.app import AgentApp

MIN_SIZE = (20, 5)
"""Minimum usable size of the terminal: columns, rows."""
CLOSING_SECONDS = 0.003
"""Delay between an interruption and its repaint, for closing the connection first."""
TWICE_SECONDS = 2.0
"""Time within which a second press of the same key counts as a double press."""


class ChatScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = list(screen_bindings())
    AUTO_FOCUS = ""
    CSS = """
    ChatScreen { layout: vertical; layers: default overlay; }
    #too-small { display: none; layer: overlay; width: 100%; height: 100%; content-align: center middle; }
    ChatScreen.-too-small #too-small { display: block; }
    """

    def __init__(self, app: AgentApp, palette: Palette, prompt: PromptBox) -> None:
        super().__init__()
        use_quick_compositor(self)
        self.palette = palette
        self.session = TuiSession(self, read_branch=branch_of)
        self.transcript = Transcript(make_block, palette)
        self.prompt = prompt
        self.prompt.open_history = self._open_history
        self.status = StatusLine(palette, app.preferences.status_command(__version__))
        self.activity = ActivityLine(palette, moving=not app.preferences.reduced_motion)
        self.finder = FindBar(self.transcript)
        self.actions = Actions(app, self)
        self._host = app
        self._dialog: tuple[str, Dialog[Answer | None]] | None = None
        self._covered = 0
        """Rows that an open dialog covers."""
        self._pressed: tuple[str, float] = ("", 0.0)
        self._closed_dialog_at = -TWICE_SECONDS
        self._sent_at = 0.0
        self._working = self._ticks = False
        self._label = ("", "")
        """Prompt label and its style class."""
        self.tell_sent: Callable[[str], object] = lambda _text: None

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.finder
        yield self.activity
        yield self.prompt
        yield self.status
        yield Static("too small", id="too-small", markup=False)

    def on_mount(self) -> None:
        self.prompt.focus_editor()
        self._ticking = self.set_interval(0.25, lambda: self.transcript.tick(time.monotonic()), pause=True)
        # After a resize, a dialog is laid out before the screen that it covers.
        self.screen_layout_refresh_signal.subscribe(self, lambda _screen: self._make_room(), immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < MIN_SIZE[0] or event.size.height < MIN_SIZE[1], "-too-small")

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Never clear the focus, because keys and pastes without a focused widget would be lost. Textual would clear it
        while another window has the focus and after a click beside all widgets."""
        if widget is None and self.prompt.is_attached:
            kept = self.focused
            widget = kept if kept is not None and kept.focusable else self.prompt.query_one(PromptEditor)
        super().set_focus(widget, scroll_visible, from_app_focus)

    def set_palette(self, palette: Palette) -> None:
        self.palette = palette
        for part in (self.transcript, self.status, self.activity):
            part.set_palette(palette)

    def apply(self, operations: Iterable[Operation]) -> None:
        self.transcript.apply(operations)

    def paint(self, operations: Iterable[Operation], activity: Activity) -> None:
        if not self.is_attached:
            self.apply(operations)
            return
        try:
            self.show_activity(activity)
            self.transcript.show_now(operations)
            self._paint_changes()
        except Exception as error:  # noqa: BLE001 -- what Textual does with an exception of a timer
            self._host.fail(error)

    def show_activity(self, activity: Activity) -> None:
        self.activity.show(activity)
        if (ticks := bool(activity.phase) or activity.agents > 0) != self._ticks:
            # No timer runs while the session is idle.
            self._ticks = ticks
            if ticks:
                self._ticking.resume()
            else:
                self._ticking.pause()
        if bool(activity.phase) != self._working:
            self._working = bool(activity.phase)
            self.prompt.busy(self._working)
            self._host.surroundings.show_work("working" if self._working else "")

    def show_facts(self, facts: Facts) -> None:
        self.status.update(facts)
        words = MODE_WORDS.get(facts.mode)
        label = "" if facts.mode == PermissionMode.DEFAULT.value else words.label if words else facts.mode
        if self._label != (label, facts.mode):
            self._label = label, facts.mode
            self.prompt.set_label(*self._label)

    def show_queued(self, texts: list[str]) -> None:
        self.prompt.set_queued(texts)

    def refresh_commands(self) -> None:
        self.prompt.refresh_commands()

    def apply_settings(self) -> None:
        self._host.apply_settings()

    def finished(self, result: ev.Result) -> None:
        self._host.work_ended(result, time.monotonic() - self._sent_at)

    def ask(self, event: Question, waiting: int) -> None:
        from agentcli.tui.screens.dialog_for import dialog_for
        from agentcli.tui.screens.edited_text import EditableDialog

        engine = self.session.engine
        dialog = dialog_for(event, waiting, engine.root if engine is not None else None)
        if isinstance(dialog, EditableDialog):
            dialog.environ, dialog.cwd = self._host.preferences.environ, self._host.preferences.cwd
        dialog.typed = lambda: self.prompt.last_typed
        dialog.draft = lambda: self.prompt.draft.text
        self.prompt.on_edit = dialog.settle
        dialog.covers = self._cover_rows
        self._dialog = (event.request_id, dialog)
        title = "the summary" if isinstance(event, ev.CompactionProposed) else event.title
        self._host.call_for_attention(f"Needs your answer: {title}")
        self._host.surroundings.show_work("waiting for you")

        def answered(answer: Answer | None) -> None:
            if self._dialog is not None and self._dialog[0] == event.request_id:
                self._dialog = self.prompt.on_edit = None
                self._cover_rows(0)
                self._host.surroundings.show_work("working" if self._working else "")
                self.session.answer(event.request_id, answer)

        self._host.push_screen(dialog, answered)

    @on(StatusLine.Failed)
    def _status_failed(self, event: StatusLine.Failed) -> None:
        self.apply(self.session.presenter.note(event.problem, "warning"))

    def show_waiting(self, count: int) -> None:
        from agentcli.tui.screens.permission import PermissionDialog

        if self._dialog is not None and isinstance(self._dialog[1], PermissionDialog):
            self._dialog[1].show_waiting(count)

    def _cover_rows(self, rows: int) -> None:
        """Keep the end of the transcript, which shows the reason for a question, above a dialog of `rows` rows."""
        self._covered = rows
        self._make_room()

    def _make_room(self) -> None:
        # During a resize the transcript may still extend below the screen.
        below = max(0, self.size.height - self.transcript.region.bottom)
        before = self.transcript.styles.padding
        inset = max(0, min(self._covered - below, self.transcript.outer_size.height - 3))
        if before.bottom != inset and (inset == 0 or self._dialog is not None):
            self.transcript.styles.padding = (before.top, before.right, inset, before.left)

    def withdraw(self, request_id: str) -> None:
        if self._dialog is not None and self._dialog[0] == request_id:
            _id, dialog = self._dialog
            self._dialog = self.prompt.on_edit = None
            self._cover_rows(0)
            self._host.close_screen(dialog)

    @on(PromptBox.Submitted)
    def _submitted(self, event: PromptBox.Submitted) -> None:
        event.stop()
        self.send(event.draft, event.now)

    def send(self, draft: Draft, at_once: bool = False) -> None:
        self._pressed = ("", 0.0)
        if draft.is_empty:
            # Enter in the empty box while prompts are queued: interrupt the work and send them.
            if self.session.busy:
                self.session.steer()
            return
        self.tell_sent(draft.text)
        if self.actions.start_local(draft):
            return
        self.transcript.follow()
        self._pressed = ("", 0.0)
        if not self.session.busy:
            self._sent_at = time.monotonic()
        self.session.send(draft, at_once)

    @on(PromptBox.TakeBack)
    def _take_back(self) -> None:
        draft = self.session.take_back()
        if draft is not None:
            self.give_back([draft])

    def give_back(self, drafts: list[Draft]) -> None:
        """Put drafts into the prompt, before the typed text. A command stands alone; the others are in the history."""
        typed = self.prompt.draft
        first, *rest = drafts if typed.is_empty else (*drafts, typed)
        if rest and any(draft.text.startswith(("/", "!")) for draft in (first, *rest)):
            self.hint("Other queued prompts are in the history: press Up")
            first, rest = (rest[-1] if typed.is_empty else typed), []
        self.prompt.load(first)
        for draft in rest:
            self.prompt.insert("\n")
            self.prompt.insert_draft(draft)

    @on(PromptBox.InterruptWanted)
    def _interrupt_wanted(self) -> None:
        self.action_interrupt()

    @on(PromptBox.HelpWanted)
    def _help_wanted(self) -> None:
        self.actions.run("keys")

    @on(Transcript.FollowingChanged)
    def _following_changed(self, event: Transcript.FollowingChanged) -> None:
        self.prompt.show_below("" if event.following else "↓ new" if event.unseen else "↓ end")

    @on(PromptBox.EndWanted)
    def _end_wanted(self) -> None:
        self.transcript.follow()

    @on(Transcript.FindChanged)
    def _find_changed(self, event: Transcript.FindChanged) -> None:
        self.finder.show(event)

    def hint(self, text: str) -> None:
        self.activity.hint(plain_line(text), TWICE_SECONDS)

    def _is_second(self, name: str) -> bool:
        """Whether this key was pressed a moment ago and nothing was typed since."""
        before, at = self._pressed
        return before == name and time.monotonic() - at < TWICE_SECONDS and self.prompt.last_typed < at

    def _twice(self, name: str) -> bool:
        """Record a press. Return whether it is the second one."""
        twice = self._is_second(name)
        self._pressed = ("", 0.0) if twice else (name, time.monotonic())
        return twice

    def closes_again(self, name: str) -> bool:
        """Record Ctrl+C or Ctrl+D pressed in a dialog. Return whether it is the second press, which quits."""
        twice = self._twice(name)
        self._closed_dialog_at = time.monotonic() if name == "ctrl+c" else -TWICE_SECONDS
        return twice

    def action_interrupt(self) -> None:
        if self.finder.is_open:
            self.finder.close()
        elif self._interrupt():
            self._pressed = ("", 0.0)
        elif self.get_selected_text():
            self.clear_selection()
        elif self.prompt.is_empty and self._twice("escape"):
            self.actions.run("rewind")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.session.busy if action == "interrupt_work" else super().check_action(action, parameters)

    def action_interrupt_work(self) -> None:
        if not self.prompt.dismiss():
            self.action_interrupt()

    def _interrupt(self) -> bool:
        """Return whether anything was interrupted. The connection is closed first, then the screen is painted without
        waiting for a frame."""
        if not self.session.interrupt():
            return False
        if not self.transcript.following:
            self.hint("Interrupted")
        self.prompt.busy(False)
        asyncio.get_running_loop().call_later(CLOSING_SECONDS, self._paint)
        return True

    def _paint(self) -> None:
        self.transcript.frame()
        self._paint_changes()

    def _paint_changes(self) -> None:
        """Paint now. The usual way is slower: idle widgets ask the screen, which paints them with a later frame."""
        paint_now(self, (self.transcript, self.transcript.vertical_scrollbar, self.activity, self.status))

    def _open_history(self) -> None:
        from agentcli.tui.screens.pickers import HistoryPicker

        def load(draft: Draft | None) -> None:
            if draft is not None:
                self.prompt.load(draft)

        self._host.push_screen(HistoryPicker(self.prompt.history.newest), load)

    def leave_or_copy(self) -> None:
        selected = self.get_selected_text()
        if time.monotonic() - self._closed_dialog_at < TWICE_SECONDS and self._is_second("ctrl+c"):
            self._host.leave()
        elif selected:
            self.actions.copy_selection(selected)
            self.clear_selection()
        elif self.finder.is_open:
            self.finder.close()
        elif self.session.interrupt():
            self.prompt.busy(False)
            if self._twice("ctrl+c"):  # do not wait for the interrupted work to end
                self._host.leave()
        elif not self.prompt.is_empty:
            self.prompt.clear()
            self._pressed = ("", 0.0)
        else:
            self._leave("ctrl+c", "Ctrl+C")

    def action_leave(self) -> None:
        if self.prompt.is_empty:
            self._leave("ctrl+d", "Ctrl+D")

    def _leave(self, name: str, shown: str) -> None:
        if self._twice(name):
            self._host.leave()
        else:
            hint = f"{shown} again quits"
            self.hint(hint)
            # Any key or paste in between cancels it.
            self.prompt.on_next_edit = partial(self.activity.end_hint, hint)

    def action_cycle_mode(self) -> None:
        self.session.cycle_mode()

    def action_details(self) -> None:
        self.transcript.toggle_details()

    def action_background(self) -> None:
        if not self.session.send_to_background():
            self.hint("No running command or agent can be moved to the background")

    def action_palette(self) -> None:
        self.actions.run("palette")

    def action_find(self) -> None:
        self.finder.open()

    def action_todos(self) -> None:
        self.actions.run("todos")

    def action_page_up(self) -> None:
        self.transcript.page_up()

    def action_page_down(self) -> None:
        self.transcript.page_down()

    def action_scroll_start(self) -> None:
        self.transcript.home()

    def action_scroll_end(self) -> None:
        self.transcript.follow()


class Actions:
    """Work that keys and sent lines start outside of submissions, in workers: local slash commands, the palette,
    rewinding, copying. `say` shows its text in the transcript."""

    def __init__(self, app: AgentApp, chat: ChatScreen) -> None:
        self._app = app
        self._chat = chat
        self.front_end = AppFrontEnd(app, chat)

    def start_local(self, draft: Draft) -> bool:
        """Start what a sent line means outside of a submission. False: the session driver takes the line."""
        if is_lone_key(draft.text):
            # An API key pasted into the prompt: it must neither be sent nor shown.
            self.start(self._app.model_connection.open(key=draft.text))
            return True
        from agentcli.commands.line import CommandLine

        line = parse_draft(draft, self._chat.session.engine)
        if sends_prompt(line):
            # While no model is reachable, connect one first.
            if self._app.model_connection.is_unreachable:
                self.start(self._app.model_connection.open(draft))
            return self._app.model_connection.is_unreachable
        if not isinstance(line, CommandLine) or line.command is None:
            return False
        if not line.command.is_local(line.arguments, self.front_end):
            return False
        self.start(self._run(line.command, line.arguments))
        return True

    async def _run(self, command: Command, arguments: str) -> None:
        from agentcli.core.events import NoticeRaised

        engine = await self._app.opener.wait_for_engine() if command.needs_engine else self._chat.session.engine
        async for event in command.load()(engine, arguments, self.front_end):
            if isinstance(event, NoticeRaised):
                self._chat.transcript.follow()  # a search may have scrolled away from the end
                self.say(event.text, event.level)

    def run(self, name: str) -> None:
        """Run the action of a key: one of this class, or the slash command of that name."""
        own = {"palette": self._palette, "keys": self._keys}
        if name in own:
            self.start(own[name]())
        else:
            self.front_end.send(f"/{name}")

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._guard(work), exit_on_error=False, group="actions")

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except AgentError as error:
            self.say(str(error), "error")
        except Exception as error:
            import logging

            logging.getLogger("agentcli").exception("an action failed")
            self.say(f"agentcli itself failed: {type(error).__name__}: {error}", "error")

    def copy_selection(self, text: str) -> None:
        async def copy() -> None:
            self._chat.hint(f"Selection: {await self.front_end.copy(text)}")

        self.start(copy())

    def say(self, text: str, level: str = "info") -> None:
        self._chat.session.note(text, level)

    async def _keys(self) -> None:
        if usage := await self.front_end.page("help", True):
            self.front_end.prefill(f"{usage.split()[0]} ")

    async def _palette(self) -> None:
        from agentcli.commands.registry import find, rows

        engine = self._chat.session.engine
        choices = [Choice(command.name, command.usage, command.described) for command in rows(engine)]
        name = await self.front_end.choose("Commands", choices)
        command = find(name, engine) if name is not None else None
        if command is None:
            return
        if command.argument_hint.startswith("<"):
            self.front_end.prefill(f"/{command.name} ")
        else:
            self.front_end.send(f"/{command.name}")
