"""The text of the prompt while it is edited: cursor, selection, chips, cut text and undo. Pure; knows no screen.

Places are indexes into the text. The cursor never stands inside a chip or a grapheme cluster, and edits take chips as a
whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from agentcli.core.messages import clean_text
from agentcli.core.text.plaintext import plain_text
from agentcli.interactive.drafts import CHIP, Draft, ImagePiece, PastedPiece, Piece, format_paste_chip, image_chip
from agentcli.tui.glyphs import boundary_after, boundary_before, boundary_near

MAX_INLINE = 2_000
MAX_INLINE_LINES = 12
"""Characters and lines of a paste beyond which it becomes a chip."""
MAX_CUT = 100_000
MAX_UNDO = 200
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_WORD_BEFORE = re.compile(r"\w+\W*\Z")
_WORD_AFTER = re.compile(r"\W*\w+")


def is_large(text: str) -> bool:
    return len(text) > MAX_INLINE or text.count("\n") >= MAX_INLINE_LINES


def without_controls(text: str, *, visible: bool = True) -> str:
    """Make text safe for the box. Direction controls are spelled out, because they disguise text as other text."""
    text = plain_text(text)
    if not visible or text.isascii():
        return text
    return _BIDI.sub(lambda found: f"<U+{ord(found.group()):04X}>", text)


class _State(NamedTuple):
    text: str
    cursor: int


class PromptBuffer:
    def __init__(self, changed: Callable[[bool], object] = lambda _is_edit: None) -> None:
        """`changed` is called after each edit (True) and after each movement (False)."""
        self._changed = changed
        self.text = ""
        self.cursor = 0
        self.anchor = 0
        """Other end of the selection; the cursor itself if nothing is selected."""
        self.edits = 0
        """Number of edits so far."""
        self.pieces: dict[str, Piece] = {}
        """Chip contents by label, including chips no longer in the text, because undo may restore them."""
        self._number = 0
        self._cut = ""
        self._after_cut: tuple[int, int] | None = None
        """Number of edits and cursor after the last cut: a further cut there is yanked together with it."""
        self._undo: list[_State] = []
        self._redo: list[_State] = []
        self._typed_to = -1
        """Cursor after the last typed character; -1 if something else came after it."""

    @property
    def selection(self) -> tuple[int, int]:
        return min(self.cursor, self.anchor), max(self.cursor, self.anchor)

    @property
    def selected_text(self) -> str:
        return self.text[slice(*self.selection)]

    @property
    def line_start(self) -> int:
        return self.text.rfind("\n", 0, self.cursor) + 1

    @property
    def line_end(self) -> int:
        end = self.text.find("\n", self.cursor)
        return len(self.text) if end < 0 else end

    @property
    def draft(self) -> Draft:
        if not self.pieces:
            return Draft(self.text)
        present = {chip.group() for chip in CHIP.finditer(self.text)}
        return Draft(self.text, {label: piece for label, piece in self.pieces.items() if label in present})

    # ------------------------------------------------------------------------------------------------- editing

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace a range; the cursor stands behind the new text."""
        start, end = self._with_whole_chips(start, end)
        if start == end and not text:
            return
        continues_word = text.isspace() or not self.text[start - 1 : start].isspace()
        if not (len(text) == 1 and start == end == self._typed_to and continues_word):
            self._undo = [*self._undo[1 - MAX_UNDO :], _State(self.text, self.cursor)]
        self._redo.clear()
        self._set(_State(self.text[:start] + text + self.text[end:], start + len(text)))
        self._typed_to = self.cursor if len(text) == 1 else -1

    def insert(self, text: str) -> None:
        self.replace(*self.selection, clean_text(text))

    def delete(self, to: int) -> None:
        """Delete the selection, or what is between the cursor and a place."""
        self.replace(*self._range(to), "")

    def _range(self, to: int) -> tuple[int, int]:
        """The selection, or what is between the cursor and a place."""
        return self.selection if self.selected_text else (min(self.cursor, to), max(self.cursor, to))

    def undo(self) -> None:
        if self._undo:
            self._redo.append(_State(self.text, self.cursor))
            self._set(self._undo.pop())

    def redo(self) -> None:
        if self._redo:
            self._undo.append(_State(self.text, self.cursor))
            self._set(self._redo.pop())

    def _set(self, state: _State) -> None:
        self.text = state.text
        self.cursor = self.anchor = self._place(state.cursor)
        self._typed_to = -1
        self.edits += 1
        self._changed(True)

    def cut(self, to: int) -> None:
        """Cut the selection, or up to a place. Consecutive cuts are yanked together."""
        start, end = self._with_whole_chips(*self._range(to))
        if not (text := self.text[start:end]):
            return
        if self._after_cut == (self.edits, self.cursor):
            text = self._cut + text if start == self.cursor else text + self._cut
        self._cut = text[:MAX_CUT]
        self.replace(start, end, "")
        self._after_cut = (self.edits, self.cursor)

    def yank(self) -> None:
        if self._cut:
            self.insert(self._cut)

    def reset(self) -> None:
        """Empty the buffer for the next prompt. Undo does not go back before it."""
        self.pieces.clear()
        self._number = 0
        self._after_cut = None
        self._undo.clear()
        self._redo.clear()
        self._set(_State("", 0))

    # ---------------------------------------------------------------------------------------------------- chips

    def put(self, draft: Draft) -> None:
        """Replace everything by a draft; undo restores the text."""
        self.replace(0, len(self.text), self._adopt(draft))

    def insert_draft(self, draft: Draft) -> None:
        self.insert(self._adopt(draft))

    def insert_pasted(self, text: str) -> None:
        """Insert text from outside, as a chip if it is large, without anything that a terminal would obey."""
        text = without_controls(text, visible=not is_large(text))
        if is_large(text):
            self._insert_chip(lambda number: format_paste_chip(number, text), PastedPiece(clean_text(text)))
        elif text:
            self.insert(text)

    def insert_image(self, name: str, piece: ImagePiece) -> str:
        return self._insert_chip(lambda number: image_chip(number, name), piece)

    def _insert_chip(self, label_of: Callable[[int], str], piece: Piece) -> str:
        self._number += 1
        label = label_of(self._number)
        self.pieces[label] = piece
        before = self.text[: self.selection[0]][-1:]
        # A blank between two chips, or between a word and a chip, makes both easier to read and edit.
        self.insert(f" {label} " if before and not before.isspace() else f"{label} ")
        return label

    def _adopt(self, draft: Draft) -> str:
        """Add the draft's chips to `pieces` and return its text, with chips renumbered where labels collide."""
        kept: list[str] = []
        at = 0
        for start, end, piece in draft.chips():
            label = draft.text[start:end]
            if self.pieces.get(label, piece) != piece:
                head, rest = label.split(" #", 1)
                taken = max(self._number, *(_number_of(known) for known in self.pieces)) + 1
                label = f"{head} #{taken}:{rest.split(':', 1)[1]}"
            self.pieces[label] = piece
            self._number = max(self._number, _number_of(label))
            kept += (draft.text[at:start], label)
            at = end
        return "".join((*kept, draft.text[at:]))

    def chips(self) -> list[tuple[int, int]]:
        if not self.pieces:
            return []
        return [chip.span() for chip in CHIP.finditer(self.text) if chip.group() in self.pieces]

    def _chip_around(self, place: int) -> tuple[int, int] | None:
        return next((span for span in self.chips() if span[0] < place < span[1]), None)

    def _with_whole_chips(self, start: int, end: int) -> tuple[int, int]:
        if start != end:
            start = (self._chip_around(start) or (start,))[0]
            end = (self._chip_around(end) or (end,))[-1]
        return start, end

    # ------------------------------------------------------------------------------------------------- movement

    def move(self, to: int, *, select: bool = False) -> None:
        """Move the cursor; `select` extends the selection."""
        self.cursor = self._place(to)
        if not select:
            self.anchor = self.cursor
        self._typed_to = -1
        self._changed(False)

    def select(self, start: int, end: int) -> None:
        self.anchor = self._place(start)
        self.move(end, select=True)

    def _place(self, place: int) -> int:
        """The nearest place where the cursor may stand."""
        place = min(max(place, 0), len(self.text))
        if (chip := self._chip_around(place)) is not None:
            return chip[0] if place - chip[0] < chip[1] - place else chip[1]
        return boundary_near(self.text, place)

    @property
    def left(self) -> int:
        chip = next((span for span in self.chips() if span[0] < self.cursor <= span[1]), None)
        return chip[0] if chip else boundary_before(self.text, self.cursor)

    @property
    def right(self) -> int:
        chip = next((span for span in self.chips() if span[0] <= self.cursor < span[1]), None)
        return chip[1] if chip else boundary_after(self.text, self.cursor)

    @property
    def word_left(self) -> int:
        start = self.line_start
        if self.cursor == start:
            return max(0, start - 1)
        word = _WORD_BEFORE.search(self.text[start : self.cursor])
        place = start + word.start() if word else start
        return (self._chip_around(place) or (place,))[0]

    @property
    def word_right(self) -> int:
        if self.cursor == self.line_end:
            return min(len(self.text), self.cursor + 1)
        word = _WORD_AFTER.match(self.text[self.cursor : self.line_end])
        place = self.cursor + word.end() if word else self.line_end
        return (self._chip_around(place) or (place,))[-1]


def _number_of(label: str) -> int:
    return int(label.split(" #", 1)[1].split(":", 1)[0])
