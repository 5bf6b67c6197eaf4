"""What every dialog that asks something is made of: a sheet at the bottom of the screen, over the visible transcript.

From top to bottom: a rule with the question, a body that scrolls, choices that never scroll away, and the keys. A
dialog says what is in the body and what the choices are, and closes with its answer; Esc closes it with None. Nothing
in here changes anything but the screen.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input

from agentcli.core.frozen import frozen
from agentcli.core.plaintext import plain_line
from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.palette import Palette
from agentcli.tui.screens.panel_rows import Rows, ScrolledLines

if TYPE_CHECKING:
    from textual.app import ComposeResult

T = TypeVar("T")
Typed = Callable[[events.Key | events.Paste], None]

PAUSE = 0.4
"""So long nobody may have typed before a key counts as an answer."""
_MARGIN = 1
_TYPING_KEYS = frozenset({"enter", "shift+enter", "ctrl+j", "backspace", "delete", "space"})
_SMALL = 3
"""Rows that the body keeps before the keys are left out and labels become short."""


@frozen
class Choice:
    name: str
    label: str
    key: str = ""
    """A letter that chooses it, besides its number."""
    short: str = ""
    """The label where there is little room; the same if empty."""
    detail: str = ""
    """More about it, below the label where there is room."""
    turn: str = ""
    """What Tab and the arrows change about it, as it stands."""
    mark: str = ""
    """Stands before the label: `[x]`."""
    refused: str = ""
    """Why it cannot be chosen; empty if it can. It keeps its number, so that the others keep theirs."""


class TypingGuard:
    """Tells an answer from the rest of a sentence: whoever types in the prompt when a dialog comes up must not answer
    it by accident. Once nobody has typed for a moment every key counts, however fast."""

    def __init__(self, clock: Callable[[], float], on: bool) -> None:
        self._clock = clock
        self._open = not on
        self._last = clock()
        self.held = False
        """Something was held back since the dialog came."""

    def begin(self) -> None:
        self._last = self._clock()

    def holds(self) -> bool:
        """Whether a key that is pressed now is still part of what was being typed."""
        if self._is_over():
            return False
        self._last = self._clock()
        self.held = True
        return True

    @property
    def pausing(self) -> bool:
        return self.held and not self._is_over()

    def _is_over(self) -> bool:
        self._open = self._open or self._clock() - self._last >= PAUSE
        return self._open


class Panel(ModalScreen[T], Generic[T]):
    """Base of the dialogs. `typed` gets every key that the guard held back, so that the prompt can have it."""

    # Keys are not bound but looked at in `on_key`: what a key means depends on the choices there are.
    AUTO_FOCUS: ClassVar[str | None] = ""
    FIRST: ClassVar[int] = 0
    """The choice that is marked when the dialog comes."""
    DEFAULT_CSS = """
    Panel { background: transparent; align: left bottom; overflow: hidden; }
    Panel:ansi { background: transparent; }
    Panel > #sheet { width: 100%; height: auto; max-height: 100%; background: $background; overflow: hidden; }
    Panel #entry {
        display: none; height: 1; border: none; padding: 0; margin: 0 1 0 3;
        background: $background; background-tint: $background 0%;
    }
    """

    def __init__(
        self,
        palette: Palette,
        *,
        guarded: bool = True,
        clock: Callable[[], float] = time.monotonic,
        typed: Typed | None = None,
    ) -> None:
        super().__init__()
        self.palette = palette
        self.guard = TypingGuard(clock, guarded)
        self.index = 0
        self.compact = False
        """There is little room: labels are short, and what stood below them has to be in the body."""
        self.asking = ""
        """What the line for typing is for; empty while it is not there."""
        self._typed = typed
        self._laid_out: dict[tuple[int, bool], list[Line]] = {}
        self._laying_out: set[tuple[int, bool]] = set()
        self._first_choice = 0

    # ------------------------------------------------------------------------------------- what a dialog says

    @property
    @abstractmethod
    def question(self) -> str:
        """What is asked, in a few words."""

    @abstractmethod
    def body(self, width: int) -> list[Line]:
        """What it is about, whole. Pure; called again when the width changed or after `update`."""

    @abstractmethod
    def choices(self) -> Sequence[Choice]: ...

    @abstractmethod
    def choose(self, name: str) -> None:
        """One was chosen."""

    @property
    def aside(self) -> str:
        """Something short to the right of the question."""
        return ""

    @property
    def hints(self) -> str:
        """The keys, the more important ones first: the last are left out where there is no room."""
        return "Enter confirms · Esc stops · ↑↓ or a number choose"

    @property
    def size_of_body(self) -> int:
        """About how many characters it has: what is very long is laid out beside the event loop."""
        return 0

    def extra_head(self, width: int) -> list[Strip]:
        """Rows between the question and the body."""
        return []

    def own_widgets(self) -> ComposeResult:
        """Widgets that stand in for body and choices at times."""
        return ()

    def occupied(self, rows: int) -> bool:
        """Whether a widget of the dialog's own stands in for body and choices at the moment; it gets so many rows."""
        return False

    @property
    def typing(self) -> bool:
        """Keys belong to a widget in which one types."""
        return bool(self.asking)

    def pressed(self, event: events.Key) -> bool:
        """A key of this dialog's own; True when it was one."""
        return False

    def turned(self, name: str, step: int) -> None:
        """Tab or an arrow on a choice that has something to turn."""

    def highlighted(self, name: str) -> None:
        """The mark has moved to this choice."""

    def clicked(self, meta: dict[str, object]) -> None:
        """A click on a row of `extra_head`, with the meta data of the style there."""

    def entered(self, text: str) -> None:
        """What was typed into the line that `ask` opened."""

    def back(self) -> None:
        """Esc, when nothing is open inside the dialog."""
        self.dismiss(None)

    # ---------------------------------------------------------------------------------- what a dialog can do

    @property
    def scrolled(self) -> ScrolledLines:
        return self.query_one("#body", ScrolledLines)

    @property
    def typed_text(self) -> str:
        """What stands in the line for typing."""
        return self.query_one(Input).value

    def update(self) -> None:
        """Something that is shown has changed."""
        self._laid_out.clear()
        if self.is_mounted:
            self._arrange()

    def ask(self, what: str, text: str = "", placeholder: str = "") -> None:
        """Open a line for typing in place of the choices."""
        self.asking = what
        entry = self.query_one(Input)
        entry.value = text
        entry.placeholder = placeholder
        entry.cursor_position = len(text)
        entry.display = True
        entry.focus()
        self._arrange()

    def stop_asking(self) -> None:
        self.asking = ""
        self.query_one(Input).display = False
        self.set_focus(None)
        self._arrange()

    def withdraw(self) -> None:
        """Close without an answer, together with whatever is open above: nobody waits for the answer any more."""
        if self in self.app.screen_stack:
            while self.app.screen is not self:
                self.app.pop_screen()
            self.dismiss(None)

    # ----------------------------------------------------------------------------------------------- drawing

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield Rows(id="head")
            yield from self.own_widgets()
            yield ScrolledLines(id="body")
            yield Rows(id="foot")
            yield Input(id="entry", compact=True, select_on_focus=False)
            yield Rows(id="keys")

    def on_mount(self) -> None:
        self.guard.begin()
        self.index = self._next(self.FIRST - 1, 1)
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        width, height = self.size
        if not (width and height):
            return
        head = [self._head(width), *self.extra_head(width)]
        self.query_one("#head", Rows).show(head)
        if self.occupied(max(1, height - len(head) - 1)):
            self.scrolled.show([], 0)
            self.query_one("#foot", Rows).show([])
            self.query_one("#keys", Rows).show([self._keys(width)])
            return
        room = 0
        lines: list[Line] = []
        foot: list[Strip] = []
        for self.compact in (False, True):
            foot = self._foot(width)
            lines = self._lines(max(1, width - 2 * _MARGIN - 1))
            room = height - len(head) - len(foot) - 1 - bool(self.asking)
            if room >= min(len(lines), max(2 * _SMALL, height // 3)):
                break
        keys = room >= min(len(lines), _SMALL) or bool(self.asking)
        room += not keys
        if room < min(len(lines), 2):
            foot = self._fitting(foot, max(1, len(foot) - (min(len(lines), 2) - room)))
            room = max(0, height - len(head) - len(foot) - keys - bool(self.asking))
        if len(lines) > room > 1:
            room -= 1
        elif len(lines) < room:
            foot = [Strip([]), *foot]
        self.scrolled.show(lines, min(len(lines), max(0, room)))
        self._paint_foot(foot, len(lines) > room)
        self.query_one("#keys", Rows).show([self._keys(width)] if keys else [])

    def _paint_foot(self, foot: list[Strip], overflows: bool) -> None:
        rows = self.query_one("#foot", Rows)
        rows.show([self._more(), *foot] if overflows and self.scrolled.shown else foot)

    def _lines(self, width: int) -> list[Line]:
        key = (width, self.compact)
        if key not in self._laid_out and self.size_of_body > 100_000:
            if key not in self._laying_out:
                self._laying_out.add(key)
                self.run_worker(self._lay_out(key), group="layout")
            return [Line(Strip([Segment("Laying out a long text …", self.palette.muted)]))]
        if key not in self._laid_out:
            self._laid_out[key] = self.body(width)
        return self._laid_out[key]

    async def _lay_out(self, key: tuple[int, bool]) -> None:
        self._laid_out[key] = await asyncio.to_thread(self.body, key[0])
        self._laying_out.discard(key)
        self._arrange()

    def _head(self, width: int) -> Strip:
        rule, title = self.palette.accent, self.palette.accent + self.palette.strong
        aside = f" {plain_line(self.aside)} " if self.aside else ""
        question = f" {plain_line(self.question)} "
        left = width - 3 - cell_len(question) - cell_len(aside)
        if left < 1:
            aside, left = "", max(0, width - 3 - cell_len(question))
        segments = [Segment("───", rule), Segment(question, title), Segment("─" * left, rule)]
        return Strip([*segments, Segment(aside, self.palette.muted)]).crop(0, width)

    def _more(self) -> Strip:
        above, below = self.scrolled.hidden
        facts = [f"↑ {above} above"] * bool(above) + [f"↓ {below} more" if above else f"↓ {below} more lines"] * bool(
            below
        )
        text = f" {' · '.join(facts)} · PgUp PgDn "
        width, faint = self.size.width, self.palette.faint
        style = self.palette.warning if below else self.palette.muted
        rest = "─" * max(0, width - 3 - cell_len(text))
        return Strip([Segment("───", faint), Segment(text, style), Segment(rest, faint)]).crop(0, width)

    def on_scrolled_lines_scrolled(self) -> None:
        rows = self.query_one("#foot", Rows)
        if rows.strips and self.scrolled.overflows:
            rows.show([self._more(), *rows.strips[1:]])

    def _foot(self, width: int) -> list[Strip]:
        if self.asking:
            lines = wrap([(self.asking, self.palette.strong)], width - _MARGIN, [(" " * _MARGIN, Style.null())])
            return [line.strip for line in lines]
        return [strip for number in range(len(self.choices())) for strip in self._choice(number, width)]

    def _choice(self, number: int, width: int) -> list[Strip]:
        choice, palette = self.choices()[number], self.palette
        current = number == self.index
        style = palette.faint if choice.refused else palette.accent + palette.strong if current else palette.text
        label = (choice.short or choice.label) if self.compact else choice.label
        if choice.refused:
            label = f"{label}: {choice.refused}"
        runs: list[Run] = [(label, style)]
        if choice.turn:
            runs += [("  ", style), (f"‹ {choice.turn} ›", palette.accent if current else palette.muted)]
        first = [
            (" " * _MARGIN, Style.null()),
            ("❯ " if current else "  ", palette.accent),
            (f"{number + 1} ", palette.muted),
            (f"{choice.mark} " if choice.mark else "", style),
        ]
        lines = wrap(runs, width - _MARGIN, first)
        if choice.detail and not self.compact:
            indent = " " * sum(cell_len(text) for text, _style in first)
            lines += wrap([(choice.detail, palette.muted)], width - _MARGIN, [(indent, Style.null())])
        meta = Style(meta={"choice": number})
        return [line.strip.extend_cell_length(width).apply_style(meta) for line in lines]

    def _fitting(self, foot: list[Strip], rows: int) -> list[Strip]:
        """As many rows of the choices as there is room for, the current one among them."""
        before = sum(len(self._choice(number, self.size.width)) for number in range(self.index))
        self._first_choice = max(min(self._first_choice, before, len(foot) - rows), before - rows + 1, 0)
        return foot[self._first_choice : self._first_choice + rows]

    def _keys(self, width: int) -> Strip:
        hints = "Enter sends it · Esc goes back" if self.asking else self.hints
        style = self.palette.muted
        if self.guard.pausing:
            hints, style = "(paused while you type)", self.palette.warning
        while cell_len(hints) > width - 2 * _MARGIN and " · " in hints:
            hints = hints.rpartition(" · ")[0]
        return Strip([Segment(" " * _MARGIN), Segment(hints, style)]).crop(0, width)

    # -------------------------------------------------------------------------------------------------- keys

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            taken = True
            self.stop_asking() if self.asking else self.back()
        elif self.typing:
            # What one types goes to the widget first; this is what it had no use for, and what scrolls meanwhile.
            taken = self.pressed(event) or (
                bool(self.asking) and event.key.startswith("page") and self._scrolls(event.key)
            )
        elif self._scrolls(event.key):
            taken = True
        elif (event.is_printable or event.key in _TYPING_KEYS) and self.guard.holds():
            self._hold_back(event)
            taken = True
        else:
            taken = self.pressed(event) or self._chooses(event)
        if taken:
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        if self.typing:
            return
        # Nothing here takes a paste, so it was meant for the prompt.
        if self._typed is not None:
            self._typed(event)
        event.stop()

    def _hold_back(self, event: events.Key | events.Paste) -> None:
        if self._typed is not None:
            self._typed(event)
        self._arrange()
        self.set_timer(PAUSE + 0.05, self._arrange)

    def _scrolls(self, key: str) -> bool:
        body = self.scrolled
        moves: dict[str, Callable[[], None]] = {
            "pageup": lambda: body.move(-max(1, body.shown - 1)),
            "pagedown": lambda: body.move(max(1, body.shown - 1)),
            "shift+up": lambda: body.move(-1),
            "shift+down": lambda: body.move(1),
            "ctrl+up": lambda: body.move(-1),
            "ctrl+down": lambda: body.move(1),
            "home": lambda: body.move(-body.count),
            "end": lambda: body.move(body.count),
        }
        move = moves.get(key)
        if move is not None:
            move()
        return move is not None

    def _chooses(self, event: events.Key) -> bool:
        choices = self.choices()
        if event.key in ("up", "down"):
            self._highlight(self._next(self.index, 1 if event.key == "down" else -1))
            return True
        if event.key in ("tab", "right", "shift+tab", "left"):
            step = 1 if event.key in ("tab", "right") else -1
            named = [choice for choice in (choices[self.index], *choices) if choice.turn] if choices else []
            if named:
                self.turned(named[0].name, step)
                self._arrange()
            return True
        if event.key == "enter":
            self._take(self.index)
            return True
        character = event.character or ""
        for number, choice in enumerate(choices):
            if character and character in (str(number + 1), choice.key):
                self._take(number)
                return True
        return False

    def _take(self, number: int) -> None:
        choices = self.choices()
        if number < len(choices) and not choices[number].refused:
            self._highlight(number)
            self.choose(choices[number].name)

    def _highlight(self, number: int) -> None:
        self.index = number
        self._arrange()
        self.highlighted(self.choices()[number].name)

    def _next(self, start: int, step: int) -> int:
        """The next choice from there that can be chosen."""
        choices = self.choices()
        numbers: Iterable[int] = ((start + step * count) % len(choices) for count in range(1, len(choices) + 1))
        return next((number for number in numbers if not choices[number].refused), 0)

    def on_rows_clicked(self, message: Rows.Clicked) -> None:
        number = message.meta.get("choice")
        if isinstance(number, int):
            self._take(number)
        else:
            self.clicked(message.meta)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.entered(message.value)
