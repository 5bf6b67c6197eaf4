"""Features of the terminal around the app's screen: title, progress, notifications, clipboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentcli.core.terminal import Terminal
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.clipboard import copy
from agentcli.tui.terminal import capabilities as term


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
        self._write(term.push_title(self.terminal))
        restores(term.progress(self.terminal, busy=False) + term.pop_title(self.terminal))
        self.show_work("")

    def show_work(self, state: str) -> None:
        """Show the state of the work, in a word or two; "" when idle."""
        title = f"{state or 'agentcli'} · {self._folder.name}"
        if title != self._title:
            self._title = title
            self._write(term.title(title, self.terminal))
            self._write(term.progress(self.terminal, busy=bool(state)))

    def notify(self, text: str) -> None:
        if self.notifications != "off":
            bell = self.notifications == "bell"
            self._write("\a" if bell else term.notification(self.terminal, "agentcli", plain_line(text)))

    async def copy(self, text: str) -> str:
        """Copy text. Return a sentence that says how, or why not."""
        return await copy(text, self.terminal, self._write, (self._folder,))
