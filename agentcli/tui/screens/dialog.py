"""Base class of dialogs: a question in the rule, a scrolling body, and choices that stay visible.

A subclass defines body and choices and closes with its answer. Nothing here has effects beyond the screen.
"""

from __future__ import annotations

import math
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.geometry import Offset

from agentcli.tui.blocks.base import BlockLine, Run, wrap
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.choices import SheetChoice, TypingGuard, choice_rows, fold_choices
from agentcli.tui.screens.page import ReadingSheet
from agentcli.tui.screens.sheet import MARGIN, Keys
from agentcli.tui.screens.text import StyledRows, draft_rows, more_row, one_line, rule, runs_of

T = TypeVar("T")

_SMALL = 3
"""Rows that the body needs before the row of keys is shown."""
_TALL = 30
"""Rows of a screen on which choices are never folded."""
PAINTED = 5
"""Layout cost per character of a diff or Markdown, in characters of plain text."""
_TYPING_KEYS = frozenset({"enter", "shift+enter", "ctrl+j", "backspace", "delete", "space"})


class Dialog(ReadingSheet[T], Generic[T]):
    """A dialog. Keys held back by its guard are forwarded to the focused widget of the screen below."""

    share = 1.0
    guarded = True
    """Whether keys are held back while the user is typing in the prompt."""
    first = 0
    """Index of the choice selected when the dialog opens."""
    marks_choice = True
    """Whether the arrow keys move between the choices."""
    folds = False
    """Whether the choices are one row while a long body is read on a small screen."""

    def __init__(self) -> None:
        super().__init__()
        self.clock: Callable[[], float] = time.monotonic
        self.typed: Callable[[], float] = lambda: -math.inf
        """Time of the last key in the prompt, on `clock`."""
        self.guard = TypingGuard(self._now)
        self.index = 0
        self.compact = False
        """Little room: labels are short, and their details have to be in the body."""
        self.asking = ""
        """Purpose of the open entry line; "" if it is closed."""
        self.covers: Callable[[int], object] = lambda _rows: None
        """Called with the number of rows that the dialog covers, whenever it changes."""
        self.draft: Callable[[], str] = lambda: ""
        """Unfinished text of the prompt, shown below the dialog. While there is some, all that is typed continues it;
        the arrows and Enter answer."""
        self._folded = False
        self._is_choosing = False
        """The user moves between the choices, so they are not folded."""
        self._sought = ""
        """Text of the last search, offered again by the next one."""
        self._first_choice = 0
        self._says_more = False
        self._read: object = object()
        """Content whose last line has been on the screen. A jump to the end counts: the user decided to skip."""

    # ---------------------------------------------------------------------------------- for subclasses to override

    @property
    @abstractmethod
    def question(self) -> str:
        """The question in a few words."""

    @abstractmethod
    def choices(self) -> Sequence[SheetChoice]: ...

    @abstractmethod
    def choose(self, name: str) -> None:
        """Handle a choice."""

    def keys(self) -> Keys:
        return [("↑↓ or a number", "choose"), ("Enter", "confirm"), ("Esc", "stop")]

    def locked_keys(self) -> Keys:
        return [("PgDn Space ↓", "scroll"), ("n", "deny"), ("End", "go to the end"), ("Esc", "stop")]

    def entry_keys(self) -> Keys:
        """The keys while the entry line is open."""
        return [("Enter", "send"), ("Esc", "back")]

    @property
    def gated(self) -> bool:
        """Whether choices are locked until the whole body has been on the screen (shown by `SheetChoice.locked`)."""
        return False

    @property
    def space_picks(self) -> bool:
        """Whether Space picks a choice even while the prompt has text."""
        return False

    @property
    def content_key(self) -> object:
        """Value that changes when the body contains something new that has to be read."""
        return None

    @property
    def locked(self) -> bool:
        return self.gated and self._read != self.content_key

    def extra_head(self, width: int) -> list[Runs]:
        """Rows between the question and the body."""
        return []

    def own_widgets(self) -> ComposeResult:
        """Widgets that temporarily replace body and choices."""
        return ()

    def replaces_body(self, rows: int) -> bool:
        """Whether one of the dialog's own widgets replaces body and choices now; it gets `rows` rows."""
        return False

    @property
    def typing(self) -> bool:
        return bool(self.asking) or self.searching

    def press_own(self, key: str, character: str | None) -> bool:
        """Handle a key specific to this dialog; return whether it was handled."""
        return False

    def turn(self, step: int, *, by_arrow: bool) -> None:
        """Called for Tab if a choice has a `turn` option, and for an arrow key if one has a `turn_more` option."""

    def follow_mark(self, name: str) -> None:
        """Called when the selection has moved to this choice."""

    def clicked(self, meta: dict[str, object]) -> None:
        """Called for a click on a row of `extra_head`, with the style's meta data."""

    def submit(self, text: str) -> None:
        """Called for Enter in the entry line opened by `ask`."""

    def keep_unsent(self, text: str) -> None:
        """Called when the entry line was closed without sending; `text` is its content."""

    # -------------------------------------------------------------------------------------- for subclasses to call

    def ask(self, what: str, text: str = "", placeholder: str = "") -> None:
        """Open an entry line in place of the choices."""
        self.asking = what
        self.open_entry(" ", text, placeholder)

    def stop_asking(self) -> None:
        text = self.entry.line.text
        if self.searching:
            self._sought = text
            self.end_search()
            return
        if self.asking:
            self.keep_unsent(text)
        self.asking = ""
        self.close_entry()

    # --------------------------------------------------------------------------------------------------------- drawing

    def parts(self) -> ComposeResult:
        yield StyledRows(id="head")
        yield from self.own_widgets()
        scroller, entry = super().parts()
        yield scroller
        yield StyledRows(id="foot")
        yield entry

    def last_parts(self) -> ComposeResult:
        yield StyledRows(id="draft")

    def on_mount(self) -> None:  # Textual also calls `Sheet.on_mount`, after this one
        if self.guarded:
            self.guard.begin(self.typed(), bool(self.draft()))
        self.index = self._next(self.first - 1, 1)

    def lay_out(self, width: int, room: int) -> None:
        """Allocate the rows: first the question and the choices, then the body, then the keys."""
        height = self.area.height
        head, foot, keys = (self.query_one(f"#{name}", StyledRows) for name in ("head", "foot", "keys"))
        extra = self.extra_head(width)
        head.show(extra, len(extra))
        draft = draft_rows(self.draft(), width, self.palette) if height > 2 * _SMALL else []
        self.query_one("#draft", StyledRows).show(draft, len(draft))
        height -= len(draft)
        fixed = 1 + len(extra) + self.entry.display
        keys.display = True
        if self.replaces_body(max(1, height - 2 - len(extra))):
            self.scroller.show([], 0)
            foot.show([], 0)
            return
        lines, rows, room = self._fit(width, height - fixed - 1)
        keys.display = room >= min(len(lines), _SMALL) or self.typing or bool(self.notice) or self._is_choosing
        room += not keys.display
        least = min(len(lines), 1)
        if room < least:
            rows = self._fitting(rows, max(1, len(rows) - least + room))
            room = max(0, height - fixed - len(rows) - keys.display)
        self._says_more = len(lines) > room > 1
        room = max(0, room - self._says_more)
        self.scroller.show(lines, min(len(lines), room))
        if self._note_reading():
            rows = self._fitting(self._foot(width), len(rows))
        if self._says_more:
            rows = [self._more(), *rows]
        elif len(lines) < room:
            rows = [[], *rows]
        foot.show(rows, len(rows))
        self.covers(fixed + min(len(lines), room) + len(rows) + keys.display + len(draft))

    def _fit(self, width: int, height: int) -> tuple[list[BlockLine], list[Runs], int]:
        """Return the body, the rows below it and the room for the body. The choices are compact if the body would get
        too little, and folded if a body that has to be scrolled would get all but one of their rows."""
        can_fold = self.folds and not (self._is_choosing or self.typing) and self.area.height < _TALL
        for self.compact, self._folded in ((False, False), (True, can_fold)):
            rows, lines = self._foot(width), self.body_lines()
            wanted = len(lines) if can_fold else max(2 * _SMALL, self.area.height // 3)
            if height - len(rows) >= min(len(lines), wanted):
                break
        return lines, rows, height - len(rows)

    def paint(self) -> None:
        super().paint()
        if self.typing:
            self.entry.repaint(self.palette)

    @property
    def marked_cell(self) -> Offset:
        foot = self.query_one("#foot", StyledRows)
        row = self._marked_row(foot.rows) if self.marks_choice else -1
        return super().marked_cell if row < 0 else foot.region.offset + Offset(MARGIN, row)

    def _marked_row(self, rows: Sequence[Sequence[Run]]) -> int:
        """Number of the first row of the current choice; -1 if it is not there."""
        marked = (y for y, row in enumerate(rows) if any(style.meta.get("choice") == self.index for _, style in row))
        return next(marked, -1)

    def rule(self, width: int) -> Runs:
        if self.locked and not self._says_more and self.scroller.overflows and self._lines_are_final:
            return self._more()
        asides = map(one_line, (self.scroller.found, *self.asides()))
        return rule(one_line(self.question), asides, width, self.palette, self.palette.accent)

    def _note_reading(self) -> bool:
        """Record that the end of the body is visible. Return whether this unlocked the choices."""
        was_locked = self.locked
        # Fewer columns show hardly a letter.
        can_be_read = self._lines_are_final and self.area.width > 2 * MARGIN + 4 and self.scroller.shown > 0
        if was_locked and can_be_read and not self.scroller.hidden[1]:
            self._read = self.content_key
        return was_locked and not self.locked

    def _more(self) -> Runs:
        above, below = self.scroller.hidden
        return more_row(above, below, self.area.width, self.palette, locked=self.locked)

    def on_scroller_scrolled(self) -> None:
        foot = self.query_one("#foot", StyledRows)
        if self._note_reading() or (self.locked and not self._says_more):
            self.settle()
        elif self._says_more and foot.rows:
            foot.show([self._more(), *foot.rows[1:]])

    def _foot(self, width: int) -> list[Runs]:
        if self.asking:
            lines = wrap([(self.asking, self.palette.strong)], max(1, width - MARGIN), [(" " * MARGIN, Style.null())])
            return [runs_of(line.strip) for line in lines]
        if self._folded:
            choices, with_keys = self.choices(), not self.draft()
            return [fold_choices(choices, self.index, width, self.palette, with_keys=with_keys, locked=self.locked)]
        rows: list[Runs] = []
        for number, choice in enumerate(() if self.searching else self.choices()):
            is_current = self.marks_choice and number == self.index
            room = max(1, width - MARGIN)
            rows += choice_rows(choice, number, room, self.palette, current=is_current, compact=self.compact)
        return rows

    def _fitting(self, foot: list[Runs], rows: int) -> list[Runs]:
        """Cut the rows of the choices to `rows`, keeping the current choice visible."""
        before = max(0, self._marked_row(foot))
        self._first_choice = max(min(self._first_choice, before, len(foot) - rows), before - rows + 1, 0)
        return foot[self._first_choice : self._first_choice + rows]

    @property
    def notice(self) -> str:
        return super().notice or ("(paused while you type)" if self.guard.holding else "")

    def shown_keys(self) -> Keys:
        if self.searching:
            return [("↑", "previous"), ("Enter or ↓", "next"), ("Esc", "end search")]
        if self.asking:
            return self.entry_keys()
        keys = self.locked_keys() if self.locked else self.keys()
        if self.draft():
            lost = re.compile(r" Space| or a number|^(?:letters|[a-z])$")
            keys = [(name, word) for name, word in ((lost.sub("", name), word) for name, word in keys) if name]
            return [*keys[:-2], ("typing", "goes to your prompt"), *keys[-2:]]
        return [("/", "find"), *keys] if self.scroller.overflows and not self.typing else keys

    # ------------------------------------------------------------------------------------------------------------ keys

    def press(self, key: str, character: str | None) -> bool:
        if key == "escape":
            self.stop_asking() if self.asking or self.searching else self.back()
            return True
        if self.asking or self.searching:
            return self._type(key, character)
        if self.typing:
            return self.press_own(key, character)
        if (character or key in _TYPING_KEYS) and self.guard.holds():
            if self.guard.takes(character):
                self._hold_back(key, character)
            else:
                self.show_notice("Too early: press the key again")
            return True
        if character and self.draft() and not (key == "space" and self.space_picks):
            return self._type_into_prompt(key, character)
        if self._scrolls(key) or self.press_own(key, character):
            return True
        if key == "ctrl+f" or character == "/":
            self.begin_search(self._sought)
            return True
        if self._chooses(key, character):
            return True
        return character is not None and not character.isspace() and self._type_into_prompt(key, character)

    def _type(self, key: str, character: str | None) -> bool:
        if key in ("pageup", "pagedown"):
            return self._scrolls(key)
        if self.searching and key in ("up", "down", "enter", "shift+enter"):
            self.scroller.step(1 if key in ("down", "enter") else -1)
            self.paint()
        elif key == "enter":
            self.submit(self.entry.line.text)
        elif self.entry.line.press(key, character):
            self._after_edit()
        else:
            return self.press_own(key, character)
        return True

    def _after_edit(self) -> None:
        self.find_typed() if self.searching else self.paint()

    def _type_into_prompt(self, key: str, character: str) -> bool:
        """Forward what the user types while the prompt has text, or a character that selects nothing, which begins one.
        Letters and Enter right after it go to the prompt, too: none of them answers."""
        self.guard.hold()
        self._hold_back(key, character)
        self.show_notice("To your prompt · ↑↓ and Enter answer")
        return True

    def on_paste(self, event: events.Paste) -> None:
        if self.asking or self.searching:
            event.stop()
            self.entry.line.insert(event.text)
            self._after_edit()
        elif not self.typing:
            # Nothing here accepts a paste, so it was meant for the prompt.
            event.stop()
            self._forward(events.Paste(event.text))

    def _now(self) -> float:
        return self.clock()

    def _hold_back(self, key: str, character: str | None) -> None:
        self._forward(events.Key(key, character))
        self.settle()
        self.set_timer(self.guard.pause + 0.05, self.settle)

    def _forward(self, event: events.Key | events.Paste) -> None:
        stack = self.app.screen_stack
        below = (stack[stack.index(self) - 1] if self in stack else stack[-1]).focused
        if below is not None:
            below.post_message(event)

    def _scrolls(self, key: str) -> bool:
        arrows = {"shift+up": "up", "shift+down": "down", "ctrl+up": "up", "ctrl+down": "down"}
        if self.locked and self.marks_choice and not self.typing:
            arrows |= {"space": "pagedown", "down": "down"} | ({"up": "up"} if self.scroller.hidden[0] else {})
        key = arrows.get(key, "" if key in ("up", "down") else key)
        if not self.scroller.press(key):
            return False
        was_choosing, self._is_choosing = self._is_choosing, False
        if self._note_reading() or was_choosing:
            self.settle()  # Unlock immediately: the next key may be the answer.
        return True

    def _chooses(self, key: str, character: str | None) -> bool:
        choices = self.choices()
        if key in ("up", "down", "tab", "right", "shift+tab", "left"):
            self._is_choosing = True
        if key in ("up", "down"):
            self._highlight(self._next(self.index, 1 if key == "down" else -1))
            return True
        if key in ("tab", "right", "shift+tab", "left"):
            by_arrow = key in ("right", "left")
            if any(choice.turn_more if by_arrow else choice.turn for choice in choices):
                self.turn(1 if key in ("tab", "right") else -1, by_arrow=by_arrow)
            return True
        if key == "enter":
            self._take(self.index)
            return True
        for number, choice in enumerate(choices):
            if character and character in (str(number + 1), choice.key):
                self._take(number)
                return True
        return False

    def _take(self, number: int) -> None:
        choices = self.choices()
        if number >= len(choices):
            return
        if why := choices[number].refused:
            self.show_notice(f"{number + 1} cannot be chosen: {why}")
        elif choices[number].locked:
            # Do not highlight it: that may scroll to the end, and pressing the key again would allow.
            self.show_notice("Read to the end first: PgDn or End")
        else:
            self._highlight(number)
            self.choose(choices[number].name)

    def _highlight(self, number: int) -> None:
        self.index = number
        self.settle()
        if not self.locked:
            self.follow_mark(self.choices()[number].name)

    def _next(self, start: int, step: int) -> int:
        choices = self.choices()
        numbers = ((start + step * count) % len(choices) for count in range(1, len(choices) + 1))
        return next((number for number in numbers if not choices[number].refused), 0)

    def on_styled_rows_clicked(self, message: StyledRows.Clicked) -> None:
        number = message.meta.get("choice")
        if isinstance(number, int):
            self._take(number)
        elif message.meta.get("more"):
            self._is_choosing = True
            self.settle()
        else:
            self.clicked(message.meta)
