"""Features of the terminal around the app's screen: title, progress, notifications, clipboard."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from agentcli.core.terminal import Terminal
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.clipboard import copy, passed_through

MAX_TITLE = 120
MAX_NOTICE = 240

_BELL = "\x07"


def push_title(terminal: Terminal) -> str:
    return "\x1b[22;0t" if terminal.has_title else ""


def pop_title(terminal: Terminal) -> str:
    return "\x1b[23;0t" if terminal.has_title else ""


def title(text: str, terminal: Terminal) -> str:
    return f"\x1b]2;{plain_line(text, MAX_TITLE)}{_BELL}" if terminal.has_title else ""


def progress(terminal: Terminal, *, busy: bool) -> str:
    """Progress in the taskbar or tab; "" if the terminal does not support it."""
    return f"\x1b]9;4;{3 if busy else 0};0{_BELL}" if terminal.has_progress else ""


def notification(terminal: Terminal, heading: str, body: str) -> str:
    """Desktop notification if the terminal supports it, otherwise the bell."""
    if terminal.name == "dumb":
        return _BELL
    # A semicolon separates fields in most of these sequences.
    heading = plain_line(heading, MAX_NOTICE).replace(";", ",")
    body = plain_line(body, MAX_NOTICE).replace(";", ",")
    if terminal.name == "kitty":
        encoded = [base64.b64encode(text.encode("utf-8", "replace")).decode() for text in (heading, body)]
        sequence = f"\x1b]99;i=agentcli:e=1:d=0;{encoded[0]}\x1b\\\x1b]99;i=agentcli:e=1:d=1:p=body;{encoded[1]}\x1b\\"
    elif terminal.name in ("vte", "foot", "ghostty"):
        sequence = f"\x1b]777;notify;{heading};{body}{_BELL}"
    elif terminal.name in ("iterm", "wezterm"):
        sequence = f"\x1b]9;{heading}: {body}{_BELL}"
    else:
        return _BELL
    if terminal.tmux or terminal.screen:
        # They show the bell as an alert of the window, and may not pass the sequence through.
        return passed_through(sequence, terminal) + _BELL
    return sequence


class Surroundings:
    def __init__(self, terminal: Terminal, write: Callable[[str], None], folder: Path, notifications: str) -> None:
        self.terminal = terminal
        self._write = write
        self._folder = folder
        self.notifications = notifications
        """Value of the setting."""
        self._title = ""

    def begin(self, restores: Callable[[str], None]) -> None:
        """`restores` registers the sequences to write when the app ends, however it ends."""
        self._write(push_title(self.terminal))
        restores(progress(self.terminal, busy=False) + pop_title(self.terminal))
        self.show_work("")

    def show_work(self, state: str) -> None:
        """Show the state of the work, in a word or two; "" when idle."""
        shown = f"{state or 'agentcli'} · {self._folder.name}"
        if shown != self._title:
            self._title = shown
            self._write(title(shown, self.terminal))
            self._write(progress(self.terminal, busy=bool(state)))

    def notify(self, text: str) -> None:
        if self.notifications != "off":
            bell = self.notifications == "bell"
            self._write("\a" if bell else notification(self.terminal, "agentcli", plain_line(text)))

    async def copy(self, text: str) -> str:
        """Copy text. Return a sentence that says how, or why not."""
        return await copy(text, self.terminal, self._write, (self._folder,))
