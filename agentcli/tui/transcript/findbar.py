"""The search bar of the transcript, shown above the activity line while it is open."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from agentcli.tui.transcript.widget import Transcript

_KEYS_FROM = 70
"""Minimum number of columns for showing the keys."""


class FindBar(Horizontal):
    DEFAULT_CSS = """
    FindBar { height: 1; display: none; }
    FindBar.-open { display: block; }
    FindBar Static { width: auto; padding: 0 1; color: $muted; }
    FindBar Input { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "close", "Close"),
        ("down", "next", "Next"),
        ("up,shift+enter", "previous", "Previous"),
    ]

    def __init__(self, transcript: Transcript) -> None:
        super().__init__()
        self._transcript = transcript
        self._count = Static("", markup=False)
        self._keys = Static("Enter next · ↑ previous · Esc close", markup=False)
        self._input = Input(placeholder="Search the transcript", select_on_focus=True)
        self._input.cursor_blink = False
        self._searches = False
        """Whether the transcript was searched for the current text; False for text left from the last search."""
        self._found = Transcript.FindChanged(0, 0, done=True)
        self._expects_more = False

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def compose(self) -> ComposeResult:
        yield Static("Find", markup=False)
        yield self._input
        yield self._keys
        yield self._count

    def open(self, query: str = "") -> None:
        self.add_class("-open")
        if query and query == self._input.value:
            self._search()  # setting the same text causes no change event
        elif query:
            self._input.value = query
        self._input.focus()

    def close(self) -> None:
        self.remove_class("-open")
        self._end_search()
        from agentcli.tui.prompt.box import PromptBox

        self.screen.query_one(PromptBox).focus_editor()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value:
            self._search()
        else:
            self._end_search()

    def _search(self) -> None:
        self._searches = True
        self._transcript.find(self._input.value)

    def _end_search(self) -> None:
        self._searches = False
        self._transcript.clear_find()
        self._count.update("")

    def _step(self, direction: int, *, keep: bool = False) -> None:
        if self._searches:
            self._transcript.find_step(direction, keep=keep)
        elif self._input.value:
            self._search()

    def expect_more(self, expected: bool) -> None:
        """Set whether earlier parts of the conversation are still being read: no search is complete before that."""
        self._expects_more = expected
        self.show(self._found)

    def show(self, found: Transcript.FindChanged) -> None:
        self._found = found
        count, position, done = found.count, found.position, found.done and not self._expects_more
        if self._searches:
            more = "" if done else "…"
            words = f"{position:,} of {count:,}{more}" if position else f"{count:,}{more}" if count else "no match"
            words = f"wrapped · {words}" if found.has_wrapped and position else words
            self._count.update(words if done or count else "…")

    def on_resize(self) -> None:
        self._keys.display = self.size.width >= _KEYS_FROM

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._step(1, keep=True)

    def action_next(self) -> None:
        self._step(1)

    def action_previous(self) -> None:
        self._step(-1)

    def action_close(self) -> None:
        self.close()
