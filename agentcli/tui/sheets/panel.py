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
from typing import ClassVar, Generic, TypeVar

from rich.style import Style
from textual import events, work
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input

from agentcli.tui.blocks.base import Line
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.sheets.choices import Choice, choice_rows
from agentcli.tui.sheets.leaving import TOLD_SECONDS, QuitWanted, is_exit
from agentcli.tui.sheets.panel_paint import MARGIN, head_row, keys_row, more_row
from agentcli.tui.sheets.panel_rows import Rows, ScrolledLines
from agentcli.tui.sheets.reading_gate import ReadingGate
from agentcli.tui.sheets.typing_guard import TypingGuard
from agentcli.tui.theme.palette import Palette

T = TypeVar("T")

_SMALL = 3
"""Rows that the body keeps before the keys are left out."""
LONG = 80_000
"""Characters of plain text that take about as long to lay out as a key may take to be answered. What is longer is laid
out beside the event loop."""
PAINTED = 5
_TYPING_KEYS = frozenset({"enter", "shift+enter", "ctrl+j", "backspace", "delete", "space"})


class Panel(ModalScreen[T], Generic[T]):
    """Base of the dialogs. Keys that its guard holds back go to what has the focus on the screen below."""

    # Keys are not bound but looked at in `on_key`: what a key means depends on the choices there are.
    AUTO_FOCUS: ClassVar[str | None] = ""
    FIRST: ClassVar[int] = 0
    """The choice that is marked when the dialog comes."""
    MARKS_CHOICE: ClassVar[bool] = True
    """The arrows move among the choices."""
    BODY_VARIES: ClassVar[bool] = False
    """The body says more when there is little room for the choices."""
    DEFAULT_CSS = """
    Panel { overflow: hidden; }
    Panel > #sheet { width: 100%; height: auto; max-height: 100%; background: $background; overflow: hidden; }
    Panel #entry { display: none; height: 1; border: none; padding: 0; margin: 0 1 0 3; }
    """

    def __init__(
        self,
        palette: Palette,
        *,
        guarded: bool = True,
        clock: Callable[[], float] = time.monotonic,
        typed: Callable[[], float] | None = None,
    ) -> None:
        super().__init__()
        # Not in the rules above, because a rule that the app has for all modal screens would win over them.
        self.styles.background = "transparent"
        self.styles.align = ("left", "bottom")
        self.palette = palette
        self.guard = TypingGuard(clock, typed, on=guarded)
        self.index = 0
        self.compact = False
        """There is little room: labels are short, and what stood below them has to be in the body."""
        self.asking = ""
        """What the line for typing is for; empty while it is not there."""
        self._has_answer = False
        self.covers: Callable[[int], object] = lambda _rows: None
        """Told how many rows of the screen the sheet covers, whenever that changes."""
        self.unfinished: Callable[[], bool] = lambda: False
        """Whether a sentence stands unfinished in the prompt: then what is typed is likely to go on with it, and only
        arrows and Enter answer."""
        self._finding = False
        self._told = ""
        self._sought = ""
        self._version = 0
        self._laid_out: dict[tuple[int, bool], tuple[int, list[Line]]] = {}
        """By width and compactness, with the version it was made for."""
        self._laying_out: set[tuple[int, bool]] = set()
        self._first_choice = 0
        self._says_more = False
        self._gate = ReadingGate()
        self._lines_are_final = True
        """What is shown is the whole body, not a part or an older one."""

    # ------------------------------------------------------------------------------------- what a dialog says

    @property
    @abstractmethod
    def question(self) -> str:
        """What is asked, in a few words."""

    @abstractmethod
    def body(self, width: int) -> list[Line]:
        """What it is about, whole. Called again when the width changed or after `update`; may run in a thread."""

    @abstractmethod
    def choices(self) -> Sequence[Choice]: ...

    @abstractmethod
    def choose(self, name: str) -> None:
        """One was chosen."""

    @property
    def asides(self) -> tuple[str, ...]:
        """Something to the right of the question; of several the first that has room."""
        return ()

    @property
    def hints(self) -> str:
        """The keys, the more important ones first: the last are left out where there is no room."""
        return "Enter confirms · Esc stops · ↑↓ or a number choose"

    @property
    def locked_hints(self) -> str:
        """The keys while choices are locked."""
        return "PgDn Space ↓ scroll · End jumps to the end · n denies · Esc stops the work"

    @property
    def size_of_body(self) -> int:
        """About how many characters of plain text it is worth; a diff or Markdown costs `PAINTED` times as much."""
        return 0

    @property
    def gated(self) -> bool:
        """Whether choices are locked until all of the body has been on the screen; they say so by `Choice.locked`."""
        return False

    @property
    def content_key(self) -> object:
        """Changes when the body says something that has to be read again."""
        return None

    @property
    def locked(self) -> bool:
        return self.gated and not self._gate.is_open(self.content_key)

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

    def overtaken(self, event: events.Key) -> bool:
        """A key that was pressed before the widget in which one types had the focus; its own ones do not come here."""
        if event.character and event.is_printable:
            self.query_one(Input).insert_text_at_cursor(event.character)
        return event.is_printable

    def turned(self, name: str, step: int) -> None:
        """Tab on a choice that has something to turn."""

    def turned_more(self, name: str, step: int) -> None:
        """An arrow on a choice that has a second thing to turn."""

    def highlighted(self, name: str) -> None:
        """The mark has moved to this choice."""

    def clicked(self, meta: dict[str, object]) -> None:
        """A click on a row of `extra_head`, with the meta data of the style there."""

    def entered(self, text: str) -> None:
        """What was typed into the line that `ask` opened."""

    def left(self, text: str) -> None:
        """The line for typing was closed with this in it, and nothing was sent."""

    def back(self) -> None:
        """Esc, when nothing is open inside the dialog."""
        self.dismiss(None)

    def leave(self) -> None:
        """Ctrl+C: close it, whatever is open inside."""
        self.dismiss(None)

    @property
    def typed_text(self) -> str:
        """What stands in the line or the editor in which one types."""
        focused = self.focused
        return focused.value if isinstance(focused, Input) else str(getattr(focused, "text", ""))

    def tell(self, text: str) -> None:
        """A few words in place of the keys, for a moment."""
        self._told = text
        self._arrange()
        if text:
            self.set_timer(TOLD_SECONDS, lambda: self.tell(""))

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """At most once: a second key or click that came in the same moment would close the screen below."""
        if self._has_answer:
            return AwaitComplete()
        self._has_answer = True
        return super().dismiss(result)

    # ---------------------------------------------------------------------------------- what a dialog can do

    @property
    def scrolled(self) -> ScrolledLines:
        return self.query_one("#body", ScrolledLines)

    def update(self) -> None:
        """Something that is shown has changed."""
        self._version += 1
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
        # At once and not by `focus`, which does it later: the next key may be on its way already.
        self.set_focus(entry)
        self._arrange()

    def stop_asking(self) -> None:
        entry = self.query_one(Input)
        if self._finding:
            self._sought = entry.value
            self.scrolled.find("", self.palette)
        elif self.asking:
            self.left(entry.value)
        self._finding = False
        self.asking = ""
        entry.display = False
        self.set_focus(None)
        self._arrange()

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
        """Share out the rows: first the question and the choices, then the body, then the keys."""
        width, height = self.size
        if not (width and height):
            return
        head = [head_row(self.question, self.asides, width, self.palette), *self.extra_head(width)]
        self.query_one("#head", Rows).show(head)
        if self.occupied(max(1, height - len(head) - 1)):
            self.scrolled.show([], 0)
            self.query_one("#foot", Rows).show([])
            self.query_one("#keys", Rows).show([self._keys(width)])
            return
        fixed = len(head) + bool(self.asking)
        room, lines, foot = 0, list[Line](), list[Strip]()
        for self.compact in (False, True):
            foot = self._foot(width)
            lines = self._lines(max(1, width - 2 * MARGIN - 1))
            room = height - fixed - len(foot) - 1
            if room >= min(len(lines), max(2 * _SMALL, height // 3)):
                break
        keys = room >= min(len(lines), _SMALL) or bool(self.asking)
        room += not keys
        least = min(len(lines), 1)
        if room < least:
            foot = self._fitting(foot, max(1, len(foot) - least + room))
            room = max(0, height - fixed - len(foot) - keys)
        self._says_more = len(lines) > room > 1
        room -= self._says_more
        self.scrolled.show(lines, min(len(lines), max(0, room)))
        if self._note_reading():
            foot = self._fitting(self._foot(width), len(foot))
        if self._says_more:
            foot = [self._more(), *foot]
        elif len(lines) < room:
            foot = [Strip([]), *foot]
        self.query_one("#foot", Rows).show(foot)
        self.query_one("#keys", Rows).show([self._keys(width)] if keys else [])
        if self.locked and not self._says_more and self.scrolled.overflows and self._lines_are_final:
            self.query_one("#head", Rows).show([self._more(), *head[1:]])
        self.covers(fixed + min(len(lines), max(0, room)) + len(foot) + keys)

    def _lines(self, width: int) -> list[Line]:
        key = (width, self.compact and self.BODY_VARIES)
        version, lines = self._laid_out.get(key, (-1, []))
        self._lines_are_final = version == self._version or self.size_of_body <= LONG
        if version == self._version:
            return lines
        if self.size_of_body <= LONG:
            lines = self.body(width)
            self._laid_out[key] = (self._version, lines)
            return lines
        if key not in self._laying_out:
            self._laying_out.add(key)
            self._lay_out(key)
        return lines or wrap([("Laying out a long text …", self.palette.muted)], width)

    @work(group="layout")
    async def _lay_out(self, key: tuple[int, bool]) -> None:
        version = -1
        while version != self._version:
            version = self._version
            self._laid_out[key] = (version, await asyncio.to_thread(self.body, key[0]))
        self._laying_out.discard(key)
        self._arrange()

    def _note_reading(self) -> bool:
        """Whether this has opened the gate."""
        was_locked = self.locked
        # In so few columns hardly a letter is in sight.
        if was_locked and self._lines_are_final and self.size.width > 2 * MARGIN + 4:
            self._gate.note(self.content_key, self.scrolled.shown, self.scrolled.hidden[1])
        return was_locked and not self.locked

    def _more(self) -> Strip:
        above, below = self.scrolled.hidden
        gate = self._gate
        return more_row(above, below, self.size.width, self.palette, locked=self.locked, insists=gate.insists)

    def on_scrolled_lines_scrolled(self) -> None:
        rows = self.query_one("#foot", Rows)
        if self._note_reading() or (self.locked and not self._says_more):
            self._arrange()
        elif self._says_more and rows.strips:
            rows.show([self._more(), *rows.strips[1:]])

    def _foot(self, width: int) -> list[Strip]:
        if self.asking:
            text = f"{self.asking}  {self.scrolled.found}" if self._finding else self.asking
            lines = wrap([(text, self.palette.strong)], max(1, width - MARGIN), [(" " * MARGIN, Style.null())])
            return [line.strip for line in lines]
        return [strip for number in range(len(self.choices())) for strip in self._choice(number, width)]

    def _choice(self, number: int, width: int) -> list[Strip]:
        choice, current = self.choices()[number], self.MARKS_CHOICE and number == self.index
        rows = choice_rows(choice, number, max(1, width - MARGIN), self.palette, current=current, compact=self.compact)
        return [row.extend_cell_length(width) for row in rows]

    def _fitting(self, foot: list[Strip], rows: int) -> list[Strip]:
        """As many rows of the choices as there is room for, the current one among them."""
        before = sum(len(self._choice(number, self.size.width)) for number in range(self.index))
        self._first_choice = max(min(self._first_choice, before, len(foot) - rows), before - rows + 1, 0)
        return foot[self._first_choice : self._first_choice + rows]

    def _keys(self, width: int) -> Strip:
        if self._told:
            return keys_row(self._told, width, self.palette.warning)
        if self.guard.holding:
            return keys_row("(paused while you type)", width, self.palette.warning)
        find = " · / finds" if self.scrolled.overflows and not self.typing else ""
        hints = (self.locked_hints if self.locked else self.hints) + find
        if self.asking:
            hints = "Enter or ↓ next · ↑ previous · Esc closes" if self._finding else "Enter sends it · Esc goes back"
        return keys_row(hints, width, self.palette.muted)

    # -------------------------------------------------------------------------------------------------- keys

    def on_key(self, event: events.Key) -> None:
        """What a widget in which one types has no use for comes here, too."""
        if self._takes(event):
            event.stop()
            event.prevent_default()

    def _takes(self, event: events.Key) -> bool:
        if self._has_answer:
            # Pressed so fast that it came here although it is meant for what comes after.
            self._pass_on(events.Key(event.key, event.character))
            return True
        key = event.key
        if key == "escape":
            self.stop_asking() if self.asking else self.back()
            return True
        if self._finding and key in ("up", "down", "shift+enter"):
            self._step(1 if key == "down" else -1)
            return True
        if self.asking and key == "enter":
            # Not by the message that the line sends, which comes after keys that are pressed after this one.
            self._enter(self.query_one(Input).value)
            return True
        if self.asking and key in ("pageup", "pagedown"):
            return self._scrolls(key)
        if self.typing:
            return self.pressed(event) or self.overtaken(event)
        if (event.is_printable or key in _TYPING_KEYS) and self.guard.holds():
            self._hold_back(event)
            return True
        if event.is_printable and self.unfinished():
            return self._goes_on(event)
        return self._scrolls(key) or self.pressed(event) or self._finds(event) or self._chooses(event)

    def _enter(self, text: str) -> None:
        """Enter in the line for typing."""
        if not self._finding:
            self.entered(text)
        elif is_exit(text, self.scrolled.has_matches):
            self.post_message(QuitWanted())
        else:
            self._step(1)

    def _goes_on(self, event: events.Key) -> bool:
        """A digit points at a choice; everything else is the sentence's, and so is the Enter right behind it."""
        digit = event.character or ""
        if digit.isdigit() and 0 < int(digit) <= len(self.choices()):
            self._highlight(int(digit) - 1)
        else:
            self.guard.hold()
            self._hold_back(event)
        return True

    def on_paste(self, event: events.Paste) -> None:
        # Nothing here takes a paste but what has the focus, so it was meant for the prompt.
        if not self.typing:
            event.stop()
            self._pass_on(events.Paste(event.text))

    def _hold_back(self, event: events.Key) -> None:
        self._pass_on(events.Key(event.key, event.character))
        self._arrange()
        self.set_timer(self.guard.pause + 0.05, self._arrange)

    def _pass_on(self, event: events.Key | events.Paste) -> None:
        stack = self.app.screen_stack
        below = (stack[stack.index(self) - 1] if self in stack else stack[-1]).focused
        if below is not None:
            below._forward_event(event)

    def _scrolls(self, key: str) -> bool:
        body = self.scrolled
        page = max(1, body.shown - 1)
        rows = {"pageup": -page, "pagedown": page, "home": -body.count, "end": body.count}
        rows |= {"shift+up": -1, "shift+down": 1, "ctrl+up": -1, "ctrl+down": 1}
        if self.locked and self.MARKS_CHOICE and not self.typing:
            rows |= {"space": page, "down": 1} | ({"up": -1} if body.hidden[0] else {})
        if key in rows:
            body.move(rows[key])
            if self._note_reading():
                # At once: the next key may be the answer.
                self._arrange()
        return key in rows

    def _chooses(self, event: events.Key) -> bool:
        choices = self.choices()
        if event.key in ("up", "down"):
            self._highlight(self._next(self.index, 1 if event.key == "down" else -1))
            return True
        if event.key in ("tab", "right", "shift+tab", "left"):
            arrows = event.key in ("right", "left")
            for choice in (choices[self.index], *choices):
                if choice.turn_more if arrows else choice.turn:
                    turn = self.turned_more if arrows else self.turned
                    turn(choice.name, 1 if event.key in ("tab", "right") else -1)
                    break
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
        if number >= len(choices) or choices[number].refused:
            return
        if choices[number].locked:
            # Not highlighted: that may scroll to the end, and the same key twice would allow.
            self._gate.insists = True
            self._arrange()
        else:
            self._highlight(number)
            self.choose(choices[number].name)

    def _highlight(self, number: int) -> None:
        self.index = number
        self._arrange()
        if not self.locked:
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

    # ------------------------------------------------------------------------------------- the line for typing

    def _finds(self, event: events.Key) -> bool:
        if event.key != "ctrl+f" and event.character != "/":
            return False
        self._finding = True
        self.ask("Find in the text above", self._sought)
        self._look_for(self._sought)
        return True

    def _look_for(self, text: str) -> None:
        self.scrolled.find(text, self.palette)
        self._arrange()

    def _step(self, step: int) -> None:
        self.scrolled.step(step)
        self._arrange()

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        if self._finding:
            self._look_for(message.value)
