"""Colours in the output of programs (SGR sequences) as spans beside the plain text.

The text stays free of control sequences; a span names its look in a few words that every theme has: attributes
(`bold`, `dim`, `italic`, `underline`, `strike`, `reverse`) and one hue (`red`, `green`, `yellow`, `blue`, `magenta`,
`cyan`, `grey`, `text`). Further shades are left out, because a program cannot know which of them are readable on this
terminal; a coloured background becomes `reverse` in its hue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agentcli.core.text.plaintext import plain_text

ColourSpan = tuple[int, int, str]
"""Start and end in the plain text, and the look."""

MAX_SPANS = 2_000
"""Spans kept of one text: its first and its last ones."""
ATTRIBUTES = ("bold", "dim", "italic", "underline", "strike", "reverse")

_SGR = re.compile(r"\x1b\[([0-9;:]{0,64})m")
_NORMAL = ("text", "red", "green", "yellow", "blue", "magenta", "cyan", "text")
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike", 21: "underline"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}


class ColourState:
    """The look that applies at one place of a text."""

    __slots__ = ("_attributes", "_background", "_foreground")

    def __init__(self) -> None:
        self._attributes: frozenset[str] = frozenset()
        self._foreground = self._background = ""

    def copy(self) -> ColourState:
        state = ColourState()
        state._attributes, state._foreground, state._background = self._attributes, self._foreground, self._background
        return state

    @property
    def look(self) -> str:
        attributes, hue = self._attributes, self._foreground
        if self._background:
            attributes, hue = attributes ^ {"reverse"}, self._background
        words = [word for word in ATTRIBUTES if word in attributes]
        return " ".join([*words, hue] if hue else words)

    def apply(self, codes: str) -> None:
        """Apply the parameters of one SGR sequence; unknown ones are ignored."""
        numbers = [int(code[:4] or 0) for code in codes.replace(":", ";").split(";")]
        place = 0
        while place < len(numbers):
            code = numbers[place]
            place += 1
            if code in (38, 48, 58):  # 58 is the colour of an underline
                hue, place = _read_extended(numbers, place)
                self._foreground = hue if code == 38 else self._foreground
                self._background = hue if code == 48 else self._background
            else:
                self._apply(code)

    def _apply(self, code: int) -> None:
        if code == 0:
            self.__init__()  # type: ignore[misc]
        elif code in _ON:
            self._attributes |= {_ON[code]}
        elif code in _OFF:
            self._attributes -= {*_OFF[code]}
        elif 30 <= code <= 37:
            self._foreground = _NORMAL[code - 30]
        elif 90 <= code <= 97:
            self._foreground = _NORMAL[code - 90] if code != 90 else "grey"
        elif code == 39:
            self._foreground = ""
        elif code in (40, 49):
            self._background = ""  # black is the background that most programs assume
        elif 41 <= code <= 47:
            self._background = _NORMAL[code - 40]
        elif 100 <= code <= 107:
            self._background = _NORMAL[code - 100] if code != 100 else "grey"


def _read_extended(numbers: Sequence[int], place: int) -> tuple[str, int]:
    """Hue of a colour out of 256 or of 16 million, and the place after it. Only the first sixteen have names."""
    kind = numbers[place] if place < len(numbers) else 0
    if kind == 5 and place + 1 < len(numbers):
        number = numbers[place + 1]
        return ("grey" if number == 8 else _NORMAL[number % 8]) if number < 16 else "", place + 2
    return "", place + 4 if kind == 2 else len(numbers)


def split_colours(text: str, state: ColourState) -> tuple[str, list[ColourSpan]]:
    """Return the plain text and its spans. `state` applies at the beginning, and is changed to that at the end."""
    plain: list[str] = []
    spans: list[ColourSpan] = []
    size = 0
    # Every second part is the parameters of a sequence.
    for number, part in enumerate(_SGR.split(text)):
        if number % 2:
            state.apply(part)
        elif part and (shown := plain_text(part)):
            plain.append(shown)
            size += len(shown)
            if look := state.look:
                spans.append((size - len(shown), size, look))
    return "".join(plain), spans


def first_and_last(spans: list[ColourSpan]) -> list[ColourSpan]:
    half = MAX_SPANS // 2
    return spans if len(spans) <= MAX_SPANS else [*spans[:half], *spans[-half:]]


def moved(spans: Iterable[ColourSpan], offset: int, size: int) -> Iterator[ColourSpan]:
    """Spans in a part of a text: `offset` is added to their places, and they are cut to the part's `size`."""
    for start, end, look in spans:
        start, end = max(0, start + offset), min(size, end + offset)
        if start < end:
            yield start, end, look


def check_spans(value: Any) -> list[ColourSpan]:
    """Spans from a display or a progress event, which may come from a file: only well-formed ones, in order."""
    found: list[ColourSpan] = []
    place = 0
    for span in value[:MAX_SPANS] if isinstance(value, list | tuple) else ():
        match span:
            case [int(start), int(end), str(look)] if place <= start < end:
                found.append((start, end, look))
                place = end
    return found
