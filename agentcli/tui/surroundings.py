"""What the app does to the terminal around its screen: title, progress, notifications, the clipboard."""

from __future__ import annotations

from collections.abc import Callable

from agentcli.core.plaintext import plain_line
from agentcli.tui import terminal as term


class Surroundings:
    def __init__(self, terminal: term.Terminal, write: Callable[[str], None], folder: str, notifications: str) -> None:
        self._terminal = terminal
        self._write = write
        self._folder = folder
        self._notifications = notifications
        self._title = ""

    def show_work(self, working: bool) -> None:
        title = f"{'working' if working else 'agentcli'} · {self._folder}"
        if title != self._title:
            self._title = title
            self._write(term.title(title, self._terminal))
            self._write(term.progress(self._terminal, "indeterminate" if working else "none"))

    def notify(self, text: str) -> None:
        if self._notifications != "off":
            bell = self._notifications == "bell"
            self._write("\a" if bell else term.notification(self._terminal, "agentcli", plain_line(text)))

    async def copy(self, text: str) -> str:
        """Says how it was copied, or why not."""
        return await term.copy(text, self._terminal, self._write)
