"""Write output pieces to the terminal, only ever appending.

`BareWriter` writes text without any escape byte, for terminals that would show it. `ColourWriter` adds styles (the
terminal's own sixteen colours, which suit its background) and renders Markdown with rich.
"""

from __future__ import annotations

import errno
import os
import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from agentcli.core.text.columns import wrap_sentences
from agentcli.core.text.plaintext import spell_hidden_in_piece
from agentcli.plain.markdown import MarkdownCutter, MarkdownPart
from agentcli.plain.pieces import AnswerEnd, AnswerText, Gap, Piece, TextLine, TextRuns, TextStyle

if TYPE_CHECKING:
    from agentcli.plain.rendering import Renderer

Sink = Callable[[str], None]
MIN_WIDTH = 20


def to_terminal(descriptor: int, encoding: str) -> Sink:
    """Make a function that writes text at once, in the terminal's encoding; characters it lacks become `?`."""

    def write(text: str) -> None:
        data = text.encode(encoding, "replace")
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                # Another program has left the terminal in non-blocking mode.
                select.select([], [descriptor], [], 1.0)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return  # The terminal is gone: the hangup or the end of the input ends the program.

    return write


class Writer(ABC):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, pieces: Iterable[Piece]) -> None:
        text = "".join(self._text(piece) for piece in pieces)
        if text:
            # After rendering, because Markdown entities (&#8203;) become hidden characters only then.
            self._sink(spell_hidden_in_piece(text))

    @abstractmethod
    def _text(self, piece: Piece) -> str: ...

    @abstractmethod
    def begin_line(self) -> None:
        """End an incomplete last line, so that the next output begins a new one."""

    @abstractmethod
    def taken(self) -> None:
        """Other code (a prompt) has written to the terminal and ended its line."""


class BareWriter(Writer):
    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._tail = "\n\n"
        """The last two characters written: they show whether a line is open and whether the last line is empty."""

    def begin_line(self) -> None:
        self.write([AnswerEnd()])

    def taken(self) -> None:
        self._tail = " \n"

    def _text(self, piece: Piece) -> str:
        ended = "" if self._tail.endswith("\n") else "\n"
        match piece:
            case TextLine():
                text = f"{ended}{''.join(text for text, _look in piece.runs)}\n"
            case Gap():
                text = f"{ended}\n" if not self._tail.endswith("\n\n") else ""
            case AnswerText():
                text = piece.text
            case AnswerEnd():
                text = ended
        self._tail = (self._tail + text)[-2:]
        return text


_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "strong": "1",
        "quiet": "2",
        "mark": "36",
        "added": "32",
        "removed": "31",
        "warning": "33",
        "error": "31",
    }
)
_WITHOUT: Mapping[str, str] = MappingProxyType({"strong": "1", "quiet": "2", "mark": "1", "error": "1"})
"""Codes with NO_COLOR."""


class ColourWriter(Writer):
    def __init__(self, sink: Sink, width: Callable[[], int], *, colours: bool = True) -> None:
        super().__init__(sink)
        self._width = width
        self._colours = colours
        self._codes = _COLOURS if colours else _WITHOUT
        self._cutter = MarkdownCutter()
        self._renderer: Renderer | None = None
        self._gap = True
        self._rows = 0
        """Rows of the open paragraph that are printed."""
        self._looked_at = 0
        self._room = max(MIN_WIDTH, width())
        """Width in columns, constant within a paragraph."""
        self._last = ""
        """Kind of the last Markdown part, which decides about the empty line before the next one."""

    def begin_line(self) -> None:
        """Do nothing: every line written is complete."""

    def taken(self) -> None:
        self._gap = False

    def warm_up(self) -> None:
        """Import the Markdown renderer; called in a thread, so that the first answer need not wait for it."""
        from agentcli.plain.rendering import Renderer

        Renderer(colours=self._colours).render("`a` *b*\n\n- c", MIN_WIDTH)

    def _text(self, piece: Piece) -> str:
        match piece:
            case TextLine():
                return self._lines(piece)
            case Gap():
                return self._blank()
            case AnswerText():
                return "".join(map(self._part, self._cutter.feed(piece.text))) + self._early()
            case AnswerEnd():
                rest = "".join(map(self._part, self._cutter.finish()))
                self._last = ""
                return rest

    def _early(self) -> str:
        """Print the rows of the open paragraph that no later text can change."""
        text = self._cutter.paragraph
        # Less often as the paragraph grows: each time all of it is rendered.
        if len(text) - self._looked_at < max(self._room // 2, self._looked_at // 4):
            return ""
        self._looked_at = len(text)
        if not self._rows:
            self._room = max(MIN_WIDTH, self._width())
        # The last row may still grow.
        rows = self._render(text).split("\n")[:-2]
        fresh = rows[self._rows :]
        before = self._before("block") if fresh else ""
        self._rows = max(self._rows, len(rows))
        return before + "".join(f"{row}\n" for row in fresh)

    def _lines(self, piece: TextLine) -> str:
        self._gap = not any(text for text, _look in piece.runs)
        runs = self._lay_out(piece) if piece.prose else piece.runs
        return "".join(self._dress(text, look) for text, look in runs) + "\n"

    def _lay_out(self, piece: TextLine) -> TextRuns:
        *marks, (text, look) = piece.runs
        indent = " " * sum(len(mark) for mark, _look in marks)
        return (*marks, (wrap_sentences(text, max(MIN_WIDTH, self._width()), indent), look))

    def _dress(self, text: str, look: TextStyle) -> str:
        code = self._codes.get(look)
        if not code or not text:
            return text
        # Each line separately: output between them must not inherit a style.
        return "\n".join(f"\x1b[{code}m{row}\x1b[0m" if row else "" for row in text.split("\n"))

    def _blank(self) -> str:
        if self._gap:
            return ""
        self._gap = True
        return "\n"

    def _part(self, part: MarkdownPart) -> str:
        if part.kind in ("fence", "code"):
            before = self._before(part.kind)
            return before + self._dress(part.text, "quiet" if part.kind == "fence" else "text") + "\n"
        rows = self._render(part.text).split("\n")[:-1]
        fresh = rows[self._rows :]
        before = self._before(part.kind) if fresh else ""
        self._rows = self._looked_at = 0
        self._room = max(MIN_WIDTH, self._width())
        return before + "".join(f"{row}\n" for row in fresh)

    def _before(self, kind: str) -> str:
        """The empty line before a part of this kind, if it does not belong to the part before."""
        together = kind == self._last == "item" or {kind, self._last} <= {"fence", "code"} or self._rows > 0
        before = self._blank() if self._last and not together else ""
        self._last = kind
        self._gap = False
        return before

    def _render(self, text: str) -> str:
        if self._renderer is None:
            from agentcli.plain.rendering import Renderer

            self._renderer = Renderer(colours=self._colours)
        return self._renderer.render(text, self._room)
