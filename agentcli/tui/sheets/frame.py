"""What all pickers and pages are: a sheet at the bottom of the screen, as high as it needs, over the transcript.

Owns the rule with the title, the row of keys at the end and how high everything may be. The parts between are up to
who inherits from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Offset, Size
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import WorkType

from agentcli.tui.blocks.wrap import Run
from agentcli.tui.sheets.leaving import TOLD_SECONDS
from agentcli.tui.sheets.line_edit import LineEdit
from agentcli.tui.sheets.runs import Runs, cut, keys_row, painted, safe
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")
R = TypeVar("R")

MARGIN = 1
"""Empty cells at both sides."""


class Lines(Widget, can_focus=False):
    """Rows of runs, painted as they are."""

    DEFAULT_CSS = "Lines { width: 1fr; height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.rows: list[Sequence[Run]] = []
        self.edge: Runs = []
        """Stands before every row, also before those that are empty."""

    def show(self, rows: Iterable[Sequence[Run]]) -> None:
        self.rows = list(rows)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = self.rows[y] if y < len(self.rows) else ()
        return painted([*self.edge, *row], self.size.width, self.rich_style)


class SearchLine(Lines):
    """The line to type in, after a sign; its text is in `line`."""

    DEFAULT_CSS = "SearchLine { height: 1; }"

    def __init__(self, sign: str, placeholder: str, longest: int = 200) -> None:
        super().__init__(id="search")
        self.line = LineEdit(longest)
        self._sign = f" {sign} "
        self._placeholder = placeholder

    def repaint(self, palette: Palette, active: bool = True) -> None:
        before = cell_len(self._sign)
        runs, column = self.line.row(self.size.width - before - MARGIN, palette, self._placeholder, active)
        self.show([[(self._sign, palette.accent), *runs]])
        if active and self.region:
            # Where the terminal shows what an input method composes.
            self.app.cursor_position = self.region.offset + Offset(before + column, 0)


class Sheet(ModalScreen[T]):
    """Returns None on Esc; nothing has changed then."""

    AUTO_FOCUS: ClassVar[str | None] = ""  # nothing has the focus: all keys come here, one after the other
    DEFAULT_CSS = """
    Sheet { background: transparent; overflow: hidden; align: left bottom; }
    Sheet > #sheet { dock: bottom; width: 100%; height: auto; background: $background; overflow: hidden; }
    """
    share: ClassVar[float] = 0.7
    """Of a large screen, the part that the sheet takes at most."""

    def __init__(self, title: str, palette: Palette | None = None) -> None:
        super().__init__()
        self.title_text = safe(title)
        self.palette = palette or Palette()
        self._above: Sheet[Any] | None = None
        self._told = ""
        # Set here because a rule of the app for `Screen` would otherwise hide the transcript behind the sheet.
        self.styles.background = "transparent"

    # ------------------------------------------------------------------------------------ what a sheet says of itself

    def parts(self) -> ComposeResult:
        """The widgets between the rule and the keys."""
        raise NotImplementedError

    def keys(self) -> list[tuple[str, str]]:
        """Keys and what they do; what matters most stands last."""
        return [("Esc", "back")]

    def aside(self) -> str:
        """What stands at the right end of the rule."""
        return ""

    def lay_out(self, width: int, room: int) -> None:
        """Give the parts their heights; together at most `room`."""
        raise NotImplementedError

    def paint(self) -> None:
        """Everything that depends on the palette or on what is chosen."""
        width = self.size.width
        self.query_one("#rule", Lines).show([self._rule(width)])
        palette = self.palette
        keys = keys_row(self.keys(), width - 2 * MARGIN, palette.text, palette.muted)
        if self._told:
            keys = [(cut(self._told, width - 2 * MARGIN), palette.warning)]
        self.query_one("#keys", Lines).show([[(" " * MARGIN, palette.muted), *keys]])

    def set_palette(self, palette: Palette) -> None:
        """Another theme: everything is painted again."""
        self.palette = palette
        self.paint()

    # -------------------------------------------------------------------------------------------------------- Textual

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            rule, keys = Lines(id="rule"), Lines(id="keys")
            rule.styles.height = keys.styles.height = 1
            yield rule
            yield from self.parts()
            yield keys

    def on_mount(self) -> None:
        self._settle(self.app.size)

    def on_resize(self, event: events.Resize) -> None:
        self._settle(event.size)

    def settle(self) -> None:
        """What is in the sheet has changed: heights and paint anew."""
        self._settle(self.size)

    def _settle(self, size: Size) -> None:
        if not size.width or not self.is_open:
            return
        whole = size.height if size.height <= 16 else max(16, int(size.height * self.share))
        self.lay_out(size.width, max(1, whole - 2))
        self.paint()

    @property
    def least(self) -> int:
        """Rows between the rule and the keys that a low sheet fills up to: what it lies on is the prompt, whose upper
        edge would look like a second rule."""
        boxes = (box for screen in self.app.screen_stack for box in screen.query("PromptBox"))
        top = min((box.region.y for box in boxes if box.region), default=self.app.size.height)
        return self.app.size.height - top - 2

    @property
    def is_open(self) -> bool:
        """Whether its parts are there. Closing removes them before the sheet itself, so what finishes late (a thread, a
        call after the next paint) asks this first."""
        return self.is_attached and self.display

    def work(self, work: WorkType[None], group: str) -> None:
        """Something beside the keys; new work of a group ends the old. Made when it begins: a coroutine that is never
        started, because the sheet closes, would warn."""
        self.run_worker(work, group=group, exclusive=True)

    def on_key(self, event: events.Key) -> None:
        if self._above is not None or not self.is_current:
            event.stop()
            self._pass_on(event)
        elif self.press(event.key, event.character if event.is_printable else None):
            event.stop()
            event.prevent_default()

    def _pass_on(self, event: events.Key) -> None:
        """Pressed so fast that it came here although it is meant for the screen that comes after. Not so Esc and
        Enter: the second of two never means something else than the first."""
        if event.key in ("escape", "enter"):
            return
        key = events.Key(event.key, event.character)
        if self._above is not None:
            key._set_forwarded()  # else the app would give it to a screen once more if it does nothing there
            self._above.post_message(key)
        else:
            self.app.post_message(key)

    def open(self, sheet: Sheet[R], then: Callable[[R | None], None] | None = None) -> None:
        """Another sheet on top of this one; `then` gets its result. It has the keys from now on, not only once it is
        on the screen."""
        self._above = sheet

        def closed(result: R | None) -> None:
            self._above = None
            if then is not None:
                then(result)

        self.app.push_screen(sheet, closed)

    def press(self, key: str, character: str | None) -> bool:
        """Do what a key does here; false if it does nothing here."""
        if key != "escape":
            return False
        self.leave()
        return True

    def leave(self) -> None:
        """Esc: nothing is chosen, nothing has changed."""
        self.close_with(None)

    @property
    def typed_text(self) -> str:
        """What stands in the line in which one types."""
        return "".join(line.line.text for line in self.query(SearchLine) if line.display)

    def tell(self, text: str) -> None:
        """A few words in place of the keys, for a moment."""
        self._told = text
        if self.is_open:
            self.paint()
        if text:
            self.set_timer(TOLD_SECONDS, lambda: self.tell(""))

    def close_with(self, result: T | None) -> None:
        """At most once: Textual ends the app when a screen is closed that is closed already."""
        if self.is_current:
            self.dismiss(result)

    def _rule(self, width: int) -> Runs:
        palette = self.palette
        title = cut(self.title_text, max(1, width - 6))
        used = cell_len(title) + 5
        aside = self.aside()
        if aside and used + cell_len(aside) + 5 > width:
            aside = ""
        line = max(1, width - used - (cell_len(aside) + 3 if aside else 0))
        rule: Runs = [("─── ", palette.faint), (title, palette.accent + Style(bold=True)), (" ", palette.faint)]
        rule.append(("─" * line, palette.faint))
        if aside:
            rule += [(f" {aside} ", palette.muted), ("─", palette.faint)]
        return rule
