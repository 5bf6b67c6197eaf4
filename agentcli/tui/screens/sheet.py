"""The base of all dialogs, lists and pages: a sheet at the bottom of the screen, over the transcript.

Owns the rule with the title, the row of keys, the height, and how the sheet closes. The subclass provides the widgets
between rule and keys; all keys go to the sheet, in their order, never to a widget in it.

Esc closes an open search or text entry, else the sheet; Ctrl+C closes the sheet at once. Either way a question is
declined, never approved. Ctrl+C twice and Ctrl+D twice quit the app, as on the chat screen; in a text entry Ctrl+D
deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Vertical
from textual.geometry import Offset, Size
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.worker import WorkType

from agentcli.tui.blocks.rows import Runs, cut
from agentcli.tui.screens.text import EntryLine, StyledRows, keys_row, rule, safe
from agentcli.tui.textual_internals import use_quick_compositor
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")
R = TypeVar("R")
Keys = list[tuple[str, str]]
"""Keys and what they do; the most important one stands last."""

MARGIN = 1
NOTICE_SECONDS = 2.0
"""How long `show_notice` replaces the row of keys."""


class Sheet(ModalScreen[T]):
    """A modal screen that returns a `T`, or None if the user closes it without an answer."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    DEFAULT_CSS = """
    Sheet { overflow: hidden; align: left bottom; }
    Sheet > #sheet { dock: bottom; width: 100%; height: auto; background: $background; overflow: hidden; }
    """
    share: ClassVar[float] = 0.7
    """Largest part of a large screen that the sheet takes."""

    palette = Palette()
    """The styles of the app that opens it; until then the default ones."""

    def __init__(self, title: str = "") -> None:
        super().__init__()
        use_quick_compositor(self)
        self.title_text = safe(title)
        self.area = Size(0, 0)
        """The screen size of the last layout."""
        self._notice = ""
        self._notice_end: Timer | None = None
        # Set here because a rule of the app for `Screen` would otherwise hide the transcript behind the sheet.
        self.styles.background = "transparent"

    # ---------------------------------------------------------------------------------- for subclasses to override

    def parts(self) -> ComposeResult:
        """The widgets between the rule and the keys."""
        raise NotImplementedError

    def last_parts(self) -> ComposeResult:
        """Widgets below the row of keys."""
        return ()

    def keys(self) -> Keys:
        """The keys that work in this sheet."""
        return [("Esc", "back")]

    def shown_keys(self) -> Keys:
        """The keys to show in the last row, if not all."""
        return self.keys()

    @property
    def notice(self) -> str:
        """Text shown in place of the keys; "" for none."""
        return self._notice

    def asides(self) -> Sequence[str]:
        """Candidates for the right end of the rule; the first that fits is shown."""
        return ()

    def rule(self, width: int) -> Runs:
        return rule(self.title_text, self.asides(), width, self.palette, self.palette.faint)

    def lay_out(self, width: int, room: int) -> None:
        """Set the heights of the widgets from `parts`; together at most `room` rows."""
        raise NotImplementedError

    def paint(self) -> None:
        """Paint everything that depends on the palette or on what is chosen."""
        width, palette = self.size.width, self.palette
        self.query_one("#rule", StyledRows).show([self.rule(width)])
        keys = keys_row(self.shown_keys(), width - 2 * MARGIN, palette.text, palette.muted)
        if notice := self.notice:
            keys = [(cut(notice, width - 2 * MARGIN), palette.warning)]
        self.query_one("#keys", StyledRows).show([[(" " * MARGIN, palette.muted), *keys]])

    def press(self, key: str, character: str | None) -> bool:
        """Handle a key; return whether it does something here. `character` is None for keys that print nothing."""
        if key != "escape":
            return False
        self.back()
        return True

    def back(self) -> None:
        """Esc: close what is open inside the sheet, else the sheet."""
        self.leave()

    @property
    def marked_cell(self) -> Offset:
        """The cell of the marked row; here the beginning of the title."""
        return self.query_one("#rule").region.offset

    # -------------------------------------------------------------------------------------------- for all to call

    def set_palette(self, palette: Palette) -> None:
        """Paint in another theme: the terminal's background or the theme's file may change while the sheet is open."""
        self.palette = palette
        self.settle()

    def leave(self) -> None:
        """Close without an answer."""
        self.dismiss(None)

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close at most once: a second key or click in the same moment would close the screen below."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def open(self, sheet: Sheet[R], then: Callable[[R], object] = lambda _result: None) -> None:
        """Open another sheet on top; `then` gets its result, if it does not close without one."""

        def closed(result: R | None) -> None:
            if result is not None:
                then(result)

        self.app.push_screen(sheet, closed)

    def show_notice(self, text: str = "") -> None:
        """Show a text in place of the keys, for a moment. Without text: show the keys again."""
        self._notice = text
        self.settle()
        if self._notice_end is not None:
            self._notice_end.stop()
        self._notice_end = self.set_timer(NOTICE_SECONDS, self.show_notice) if text else None

    def settle(self) -> None:
        """Lay out and paint again."""
        self._settle(self.size)

    def work(self, work: WorkType[None], group: str) -> None:
        """Run a coroutine while keys are handled; new work of a group cancels the old."""
        self.run_worker(work, group=group, exclusive=True)

    @property
    def entry(self) -> EntryLine:
        return self.query_one(EntryLine)

    @property
    def typed_text(self) -> str:
        return "".join(entry.line.text for entry in self.query(EntryLine) if entry.display)

    @property
    def cursor_cell(self) -> Offset:
        """Where the terminal's cursor belongs: in an active text entry, else at the marked row."""
        cells = (entry.cursor_cell for entry in self.query(EntryLine))
        return next((cell for cell in cells if cell is not None), None) or self.marked_cell

    @property
    def is_open(self) -> bool:
        """Whether its widgets exist: not before it is composed, nor while it closes."""
        return self.is_attached and self.display and bool(self.query("#keys"))

    @property
    def min_rows(self) -> int:
        """Rows between the rule and the keys that cover the prompt: its edge would look like a second rule."""
        boxes = (box for screen in self.app.screen_stack for box in screen.query("PromptBox"))
        top = min((box.region.y for box in boxes if box.region), default=self.app.size.height)
        return self.app.size.height - top - 2

    # -------------------------------------------------------------------------------------------- for Textual to call

    def compose(self) -> ComposeResult:
        self.palette = getattr(self.app, "palette", self.palette)
        with Vertical(id="sheet"):
            yield StyledRows(id="rule")
            yield from self.parts()
            yield StyledRows(id="keys")
            yield from self.last_parts()

    def on_mount(self) -> None:
        self._settle(self.app.size)

    def on_resize(self, event: events.Resize) -> None:
        if event.size == self.area and self.is_open:
            self.paint()  # `on_mount` has laid it out for this size already.
        else:
            self._settle(event.size)

    def _settle(self, size: Size) -> None:
        if not size.width or not self.is_open:
            return
        self.area = size
        whole = size.height if size.height <= 16 else max(16, int(size.height * self.share))
        self.lay_out(size.width, max(1, whole - 2))
        self.paint()

    def on_key(self, event: events.Key) -> None:
        if not self.is_active:
            # Pressed before the screen that it is meant for was on top. Esc and Enter are dropped: a double press must
            # not answer the next question, too.
            event.stop()
            if event.key not in ("escape", "enter"):
                self.app.post_message(events.Key(event.key, event.character))
        elif self.press(event.key, event.character if event.is_printable else None):
            event.stop()
            event.prevent_default()
