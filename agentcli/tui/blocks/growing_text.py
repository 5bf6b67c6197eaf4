"""Text that grows without bound, such as the output of a running command, kept and shown from its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.style import Style

from agentcli.core.text.plaintext import continued_output
from agentcli.core.text.terminal_colours import ColourSpan, moved
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.coloured import Coloured
from agentcli.tui.blocks.rows import Rows, styled, tail
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.theme.palette import Palette

KEPT = 64_000
"""Characters that are kept by default; the text is cut at twice as many, so that cutting is rare."""
_OPEN_ROWS = 200
"""Maximum number of rows of the last, unfinished line, which is wrapped again at every layout."""


class LiveText:
    def __init__(self, text: str = "", kept: int = KEPT, line_breaks: int = 0) -> None:
        self.text = ""
        self._colours: list[ColourSpan] = []
        self._kept = kept
        self._dropped = 0
        self.forget()
        self.add(text)
        self.count_lines(line_breaks)

    def add(self, text: str, colours: Iterable[ColourSpan] = ()) -> None:
        """Add text. `colours` are those of the text without the carriage return at its beginning."""
        kept = self._kept
        if len(text) > kept:
            self._dropped += text.count("\n", 0, len(text) - kept)
            text, colours = text[-kept:], ()
        start = self.text.rfind("\n") + 1 if text.startswith("\r") else len(self.text)
        if self._colours and start < len(self.text):
            self._colours = list(moved(self._colours, 0, start))
        self.text = continued_output(self.text, text)
        self._colours += moved(colours, start, len(self.text))
        if len(self.text) > 2 * kept:
            cut = len(self.text) - kept
            cut = self.text.find("\n", cut, cut + kept // 2) + 1 or cut
            self._dropped += self.text.count("\n", 0, cut)
            self.text = self.text[cut:]
            self._colours = list(moved(self._colours, -cut, len(self.text)))
            self.forget()

    def count_lines(self, line_breaks: int) -> None:
        """Set the number of line breaks of all text so far, including text never added. It never decreases."""
        self._dropped = max(self._dropped, line_breaks - self.text.count("\n"))

    def forget(self) -> None:
        self._wrapped: list[BlockLine] = []
        self._wrapped_to = 0
        self._shown: object = None

    def tail(self, width: int, rows: int, palette: Palette, style: Style, before: Sequence[Run] = ()) -> Rows:
        found = tail(self.text, width, rows, self._look_of(palette, style), before)
        return Rows(found.lines, found.hidden + self._dropped, above=True) if found.lines else found

    def all(self, width: int, palette: Palette, style: Style, before: Sequence[Run] = ()) -> Rows:
        shown = (width, palette, style, tuple(before))
        if shown != self._shown:
            self.forget()
            self._shown = shown
        look = self._look_of(palette, style)
        end = self.text.rfind("\n") + 1
        if end > self._wrapped_to:
            self._wrapped += wrap(styled(self.text, self._wrapped_to, end - 1, look), width, before, before)
            self._wrapped_to = end
        rest = tail(self.text[end:], width, _OPEN_ROWS, self._look_of(palette, style, end), before)
        return Rows([*self._wrapped, *rest.lines], self._dropped + rest.hidden, above=True)

    def _look_of(self, palette: Palette, style: Style, start: int = 0) -> Style | Coloured:
        """Styles of the text from `start` on."""
        if not self._colours:
            return style
        return Coloured(list(moved(self._colours, -start, len(self.text))), palette, style)
