"""The Textual driver: bytes to events, frames to bytes, terminal modes, signals.

Replaces parts of Textual's Unix driver that are slow or missing: Esc without delay, pastes in one piece, no garbage in
the prompt, output that never blocks the event loop, a flicker-free handover from the instant prompt, and a terminal
that is always restored. `input` parses bytes, `output` decides what may be dropped, `restore` restores the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from textual import constants, events
from textual.dom import DOMNode
from textual.driver import Driver
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip

from agentcli.core.frozen import frozen
from agentcli.core.terminal import Terminal
from agentcli.tui.repaint import ScreenMemory
from agentcli.tui.terminal.input import InputFilter, Token, Translation
from agentcli.tui.terminal.instant import Instant, make_raw
from agentcli.tui.terminal.output import TerminalWriter, open_unblocked
from agentcli.tui.terminal.restore import SIGNALS, OrderedExit, TerminalRestore
from agentcli.tui.textual_internals import paint_now

if TYPE_CHECKING:
    from agentcli.tui.app import PaintedApp

READ_BYTES = 65536
SYNC_BEGIN, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
MAX_TAKE_OVER_SECONDS = 2.0
"""After this time the app's frames are shown even if no widget is focused yet."""
MAX_REPLAY_SECONDS = 0.3
STOP_SECONDS = 0.5
MIN_SYNCHRONIZED = 100
"""Length from which on a frame is synchronized; shorter ones cannot tear visibly."""
INTERRUPTS_TO_END = 3
"""Presses of Ctrl+C, none of which the app has handled, that end the process."""
_KITTY_FLAGS = 0b11001
"""Flags of the kitty keyboard protocol: disambiguate escape codes, report all keys, report the associated text."""


MAX_KEY_SECONDS = 0.1
"""Maximum wait for a key: its handler may take long, or close the widget that would report the end."""


class KeyOrder:
    """Makes keys act in the order they were pressed, however fast they arrive. Call its methods in the event loop.

    Textual gives keys to the focused widget one after another, but a key binding acts only after its key has bubbled up
    through all parents to the app, a priority binding before the widget sees earlier keys, and a key that closes a
    dialog after the next one was sent to that dialog. Over a slow connection, or typed before the app was ready, keys
    arrive in bursts. So a key that is not text waits for the text before it, and the next key for that one.
    """

    def __init__(self, app: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop
        self._pending: deque[Message | Callable[[], object]] = deque()
        self._is_text_unsettled = False
        """Whether text may still be on its way to the focused widget."""
        self._is_waiting = False
        self._round = 0
        """Number of waits so far."""

    def post(self, *steps: Message | Callable[[], object]) -> None:
        """Post messages. A function is called in the app, once everything posted before has been processed."""
        self._pending.extend(steps)
        self._advance()

    def _advance(self) -> None:
        while self._pending and not self._is_waiting:
            first = self._pending[0]
            is_key = isinstance(first, events.Key)
            is_text = isinstance(first, events.Key) and first.is_printable and not self._is_dialog_open()
            if self._is_text_unsettled and (not isinstance(first, Message) or (is_key and not is_text)):
                self._is_text_unsettled = False
                self._wait()
                return
            self._pending.popleft()
            if not isinstance(first, Message):
                self._app.call_later(first)
                continue
            self._app.post_message(first)
            if is_text or isinstance(first, events.Paste):
                self._is_text_unsettled = True
            elif is_key:
                self._wait()

    def _wait(self) -> None:
        self._round += 1
        self._is_waiting = True
        self._loop.call_later(MAX_KEY_SECONDS, self._go_on, self._round)
        self._follow(self._app, self._round, to_focused=True)

    def _follow(self, pump: DOMNode | None, number: int, *, to_focused: bool = False) -> None:
        """Pass through all queues on a key's way: app, focused widget, its parents, app."""

        def follow(passed: DOMNode) -> None:
            self._follow(self._app.focused or self._get_screen() if to_focused else passed.parent, number)

        if pump is None or not pump.call_later(follow, pump):  # False: it is closing, and discards its keys
            self._go_on(number)

    def _go_on(self, number: int) -> None:
        if self._is_waiting and number == self._round:
            self._is_waiting = False
            self._advance()

    def _get_screen(self) -> DOMNode | None:
        stack = self._app.screen_stack
        return stack[-1] if stack else None

    def _is_dialog_open(self) -> bool:
        """Whether a dialog is open. There a letter may answer and close it; later keys then go to the screen below."""
        return isinstance(self._get_screen(), ModalScreen)


class TakenOver(Message):
    """Everything typed before the app was ready has reached the focused widget.

    Dialogs that must not be answered by blind typing open after this.
    """


def escape_seconds(environ: Mapping[str, str]) -> float:
    """How long a lone ESC is held back, because it may begin the sequence of a key."""
    delay = environ.get("ESCDELAY", "")
    if delay.isascii() and delay.isdigit() and len(delay) < 6:
        return max(1, int(delay)) / 1000
    return 0.025 if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") else 0.002


@frozen
class Preloaded:
    instant: Instant | None = None
    """Keeps echoing until the app has painted and a widget has the focus; its input is then replayed."""
    last_resort: Callable[[], object] | None = None
    """Called right before the process is killed because the app did not end in time."""
    writes_whole_frames: bool = False
    """For a terminal that does not show what it should."""


class AgentDriver(Driver):
    """Used as `PaintedApp(driver_class=…)`; `AgentDriver.preload(…)` creates one with something to take over."""

    preloaded: ClassVar[Preloaded] = Preloaded()

    @classmethod
    def preload(cls, preloaded: Preloaded) -> type[AgentDriver]:
        return type("AgentDriver", (cls,), {"preloaded": preloaded})

    def __init__(self, app: PaintedApp[Any], *, debug: bool = False, mouse: bool = True, size: Any = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        assert sys.__stdin__ is not None
        assert sys.__stdout__ is not None
        app.terminal_driver = self
        self.app = app
        self.loop = asyncio.get_running_loop()
        self.fileno = sys.__stdin__.fileno()
        self._uses_mouse = mouse
        self._fd_out = sys.__stdout__.fileno()
        instant = self.preloaded.instant
        self.restore = instant.restore if instant else TerminalRestore(self.fileno, self._fd_out)
        self._writer: TerminalWriter | None = None
        self._waiting_instant = instant
        self._unreplayed = b""
        self._gate_open = instant is None
        self._gate_deadline = 0.0
        self._wake_read = self._wake_write = -1
        self._translation = Translation()
        self._order = KeyOrder(app, self.loop)
        self._input_thread: threading.Thread | None = None
        self._input_stops = threading.Event()
        self._size_is_due = False
        self._restarts_after_stop = True
        self._reports_resume = False
        # An app with a session saves it before it exits.
        leave: Callable[[int], object] = getattr(app, "leave", partial(app.exit, None))
        self._ending = OrderedExit(self.restore, lambda code: self._in_loop(leave, code), self.preloaded.last_resort)
        self._handlers_before: dict[int, Any] = {}
        system = COLOR_SYSTEMS.get(app.console.color_system or "", ColorSystem.TRUECOLOR)
        terminal = Terminal.from_environ(os.environ, sys.platform)
        self._memory = ScreenMemory(system, erases_in_colour=not terminal.screen)
        self._cursor = (0, 0)
        self._synchronized = False
        self._unanswered = 0
        """Presses of Ctrl+C that the event loop has not handled."""
        signal.signal(signal.SIGTSTP, self._on_stop)
        signal.signal(signal.SIGCONT, self._on_continue)

    # -------------------------------------------------------------------------------------------------- output

    def write(self, data: str) -> None:
        if self._writer is not None:
            self._writer.write(data)

    def paint(self, strips: Iterable[tuple[int, int, Strip]], size: Size, cursor: tuple[int, int]) -> None:
        """Show strips, each with column and row, by writing the cells that have changed; later if the terminal accepts
        no output now."""
        self._cursor = cursor
        self._memory.resize(*size)
        self._memory.place(strips)
        if self.preloaded.writes_whole_frames:
            self._memory.forget()
        if self._gate_open:
            self._write_changes()
        elif self._writer is not None:
            self._open_gate_when_ready()

    def _write_changes(self) -> None:
        if self._writer is None or not self._writer.takes_frames():
            return
        frame = self._memory.changes(self._cursor)
        if self._synchronized and len(frame) >= MIN_SYNCHRONIZED:
            frame = f"{SYNC_BEGIN}{frame}{SYNC_END}"
        if frame:
            self._writer.write(frame)

    def forget_screen(self) -> None:
        """Make the next frame a complete one, because the terminal may show something other than what was painted."""
        self._memory.forget()

    def resized(self, size: Size) -> None:
        """Handle a resize, after which the terminal's content is undefined. If the size is already painted, as after
        two quick resizes, there is no new layout, so everything is written again here."""
        self.forget_screen()
        if self._memory.size == size:
            self._write_changes()

    def _open_gate_when_ready(self) -> None:
        """Handle the first frames of the app while the instant prompt is shown: keep the prompt until a widget is
        focused and has received all typed keys, so that no frame shows an empty box in between."""
        if self._waiting_instant is None:
            return  # it was taken over, and the gate opens when its keys have arrived
        if not (self.app.screen_stack and self.app.focused) and time.monotonic() < self._gate_deadline:
            return
        self._take_over()
        # The keys were posted before, so they are in the loop's queue ahead of this callback.
        self._in_loop(self._order.post, self._open_gate)

    def _open_gate(self) -> None:
        if not self._gate_open:
            self._gate_open = True
            self.forget_screen()
            # The whole screen with the text just typed: no frame shows an empty box in between.
            self.app.screen.refresh()
            paint_now(self.app.screen, ())
            self.app.post_message(TakenOver())

    def _open_gate_late(self) -> None:
        """Fallback for an app that focuses no widget or is busy."""
        if not self._gate_open and self._writer is not None:
            self._gate_deadline = 0.0
            self._open_gate_when_ready()
            self.loop.call_later(MAX_REPLAY_SECONDS, self.app.call_later, self._open_gate)

    # --------------------------------------------------------------------------------------------- application mode

    def start_application_mode(self) -> None:
        if not self._may_use_terminal():
            return
        self.restore.arm()
        self._writer = TerminalWriter(
            self._fd_out,
            ready=lambda: self._in_loop(self._write_changes),
            gone=self._terminal_gone,
            unblocked=open_unblocked(self._fd_out),
        )
        self.restore.silence = self._writer.silence
        self._writer.start()
        self._wake_read, self._wake_write = os.pipe()
        self._handle_signals()
        self._send_size()
        if self._gate_open:
            self._take_over()
            self._write_changes()
        else:
            self._gate_deadline = time.monotonic() + MAX_TAKE_OVER_SECONDS
            self.loop.call_later(MAX_TAKE_OVER_SECONDS, self._open_gate_late)
        if self._reports_resume:
            self._reports_resume = False
            self.send_message(self.SignalResume())

    def _take_over(self) -> None:
        instant, self._waiting_instant = self._waiting_instant, None
        typed, self._unreplayed = self._unreplayed, b""
        if instant is not None:
            typed += instant.finish()
            self.restore.reply_due = False
        self._enter_modes(alternate_screen=instant is None)
        self._start_input(typed)

    def _enter_modes(self, *, alternate_screen: bool) -> None:
        self.forget_screen()
        make_raw(self.fileno)
        write = self.write
        if alternate_screen:
            write("\x1b[?1049h")
        write("\x1b[?25l\x1b[?1004h\x1b[?2004h\x1b[?7l\x1b[?2031h")
        if not constants.DISABLE_KITTY_KEY:
            write(f"\x1b[>{_KITTY_FLAGS}u")
        if self._uses_mouse:
            write("\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h")
        if os.environ.get("TERM_PROGRAM") != "Apple_Terminal":  # it prints the last letter of such queries
            write("\x1b[?2026$p")
        if self.preloaded.instant is None:
            self.ask_for_background()

    def ask_for_background(self) -> None:
        """Query the background colour. Terminals that support it answer, which is posted as `BackgroundColour`."""
        if os.environ.get("TERM") != "linux":
            self.write("\x1b]11;?\x07")

    def _start_input(self, typed: bytes) -> None:
        source = InputFilter(escape_seconds(os.environ))
        if typed:  # through the same filter as later input: a sequence may be cut off in the middle
            self._deliver(source.feed(typed, time.monotonic()))
        self._input_thread = threading.Thread(
            target=self._read_keys, args=(source,), name="terminal-input", daemon=True
        )
        self._input_thread.start()

    def stop_application_mode(self) -> None:
        if self._waiting_instant is not None:
            self._unreplayed += self._waiting_instant.finish()
            self._waiting_instant = None
        self._gate_open = True
        self.disable_input()
        if self.restore.armed:
            self.write(self.restore.sequence)
            self.restore.disarm()
            self.restore.restore_attributes()
        self._forget_signals()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None and not writer.stop(STOP_SECONDS):
            self.restore.arm()
            self.restore.restore_terminal()

    def disable_input(self) -> None:
        thread, self._input_thread = self._input_thread, None
        self._input_stops.set()
        if thread is not None:
            with contextlib.suppress(OSError):
                os.write(self._wake_write, b"x")
            thread.join(STOP_SECONDS)
            with contextlib.suppress(termios.error, OSError):
                termios.tcflush(self.fileno, termios.TCIFLUSH)
        for descriptor in (self._wake_read, self._wake_write):
            if descriptor >= 0:
                os.close(descriptor)
        self._wake_read = self._wake_write = -1
        self._input_stops.clear()

    def _may_use_terminal(self) -> bool:
        """Return False, after a stop, if a shell has put the process into the background and keeps the terminal."""
        before = {number: signal.signal(number, _stop_again) for number in (signal.SIGTTOU, signal.SIGTTIN)}
        try:
            termios.tcsetattr(self.fileno, termios.TCSANOW, termios.tcgetattr(self.fileno))
        except termios.error:
            return not os.isatty(self.fileno)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return True

    # --------------------------------------------------------------------------------------------------- input

    def _read_keys(self, source: InputFilter) -> None:
        try:
            self._read_until_stopped(source)
        except Exception as error:  # noqa: BLE001 -- never let the keyboard die silently
            self._in_loop(self.app.fail, error)

    def _read_until_stopped(self, source: InputFilter) -> None:
        fileno, wake = self.fileno, self._wake_read
        while not self._input_stops.is_set():
            wait = None if source.deadline is None else max(0.0, source.deadline - time.monotonic())
            try:
                ready, _, _ = select.select([fileno, wake], [], [], wait)
                if wake in ready:
                    return
                data = os.read(fileno, READ_BYTES) if ready else None
            except BlockingIOError:
                continue
            except (OSError, ValueError):
                data = b""
            if data == b"":
                if not self._input_stops.is_set():
                    self._terminal_gone()
                return
            now = time.monotonic()
            self._deliver(source.feed(data, now) if data else source.tick(now))

    def _deliver(self, found: list[Token]) -> None:
        for token in found:
            if token.kind == "reply" and token.text.startswith("\x1b[?997;"):
                self.ask_for_background()  # it has switched to a dark or light colour scheme
            elif token.kind == "reply" and token.text.startswith("\x1b[?2026;"):
                self._synchronized = not token.text.startswith("\x1b[?2026;0")
        together: list[Message] = []
        for message in self._translation.messages(found):
            if isinstance(message, events.Key) and message.key == "ctrl+c":
                self._count_interrupt()
            if isinstance(message, events.MouseEvent):
                self._in_loop(self._order.post, *together)
                together = []
                self.process_message(message)
            else:
                together.append(message.set_sender(self.app))
        self._in_loop(self._order.post, *together)

    def _count_interrupt(self) -> None:
        """End the process when Ctrl+C is pressed again and again while a handler blocks the event loop."""
        self._unanswered += 1
        if self._unanswered >= INTERRUPTS_TO_END:
            self._ending.end_now(128 + signal.SIGINT)
        self._in_loop(setattr, self, "_unanswered", 0)

    def send_message(self, message: Message) -> None:
        self._in_loop(self._order.post, message)

    def _in_loop(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the receiver
            self.loop.call_soon_threadsafe(callback, *arguments)

    # ------------------------------------------------------------------------------------------ size and signals

    def _get_size(self) -> tuple[int, int]:
        """The size from the terminal, never from COLUMNS and LINES: exported, they hide every change of the window."""
        for descriptor in (self._fd_out, self.fileno):
            with contextlib.suppress(OSError):
                columns, rows = os.get_terminal_size(descriptor)
                if columns and rows:
                    return columns, rows
        return 80, 25

    def _send_size(self) -> None:
        self._size_is_due = False
        size = Size(*self._get_size())
        self.app.post_message(events.Resize(size, size))

    def _on_resize(self, signum: int, frame: FrameType | None) -> None:
        if self._waiting_instant is not None:
            self._waiting_instant.resized()
        if not self._size_is_due:
            self._size_is_due = True
            self._in_loop(self._send_size)

    def _handle_signals(self) -> None:
        handlers: dict[int, Any] = dict.fromkeys(SIGNALS, self._ending.on_signal)
        handlers[signal.SIGWINCH] = self._on_resize
        for number, handler in handlers.items():
            before = signal.signal(number, handler)
            self._handlers_before.setdefault(number, before)

    def _forget_signals(self) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        # Ctrl+C in an external editor is sent to us as well, but not meant for us.
        signal.signal(signal.SIGINT, _ignore)

    def _terminal_gone(self) -> None:
        if self._writer is not None:
            self._writer.silence()
        self._ending.terminal_gone()

    @property
    def can_suspend(self) -> bool:
        return True

    @contextlib.contextmanager
    def no_automatic_restart(self) -> Iterator[None]:
        before, self._restarts_after_stop = self._restarts_after_stop, False
        try:
            yield
        finally:
            self._restarts_after_stop = before

    def _on_stop(self, *_: object) -> None:
        if self._restarts_after_stop and self._writer is not None:
            self.suspend_application_mode()
            self._reports_resume = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _on_continue(self, *_: object) -> None:
        if not self._restarts_after_stop:
            return
        if self._writer is None:
            self.resume_application_mode()
        elif self._waiting_instant is not None:
            make_raw(self.fileno)
            self._waiting_instant.resized()
        elif self._gate_open:
            # Stopped by a signal that cannot be caught: another program may have changed the terminal meanwhile.
            self.write("\x1b[<u")
            self._enter_modes(alternate_screen=True)
            self._in_loop(self._write_changes)


def _ignore(*_: object) -> None:
    """Signal handler that does nothing. Unlike SIG_IGN, it is not inherited by children."""


def _stop_again(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
