"""The search bar of the transcript, shown above the activity line while it is open."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from agentcli.tui.transcript.widget import Transcript


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
        self._input = Input(placeholder="Search the transcript", select_on_focus=True)
        self._input.cursor_blink = False

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def compose(self) -> ComposeResult:
        yield Static("Find", markup=False)
        yield self._input
        yield self._count

    def open(self, query: str = "") -> None:
        self.add_class("-open")
        if query:
            self._input.value = query
        self._input.focus()

    def close(self) -> None:
        self.remove_class("-open")
        self._transcript.clear_find()
        from agentcli.tui.prompt.box import PromptBox

        self.screen.query_one(PromptBox).focus_editor()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value:
            self._transcript.find(event.value)
        else:
            self._transcript.clear_find()
            self._count.update("")

    def show(self, count: int, position: int, done: bool) -> None:
        if self._input.value:
            more = "" if done else "…"
            words = f"{position:,} of {count:,}{more}" if position else f"{count:,}{more}" if count else "no match"
            self._count.update(words if done or count else "…")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._transcript.find_step(1, keep=True)

    def action_next(self) -> None:
        self._transcript.find_step(1)

    def action_previous(self) -> None:
        self._transcript.find_step(-1)

    def action_close(self) -> None:
        self.close()
