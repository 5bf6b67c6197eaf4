"""The colours inside the lines of a hunk: code, changed words, and the change itself. Made as lines are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style

from agentcli.core.unified_diff import DiffLine, Hunk
from agentcli.tui.blocks.diff_words import Pair, Spans, changed_words, pairs
from agentcli.tui.blocks.languages import language_of
from agentcli.tui.blocks.wrap import Run
from agentcli.tui.theme.palette import Palette

_FIRST_COLOURED = 30
_MOST_COLOURED = 200
"""Kept lines of a hunk that get code colours: lexing is most of the cost, and what is folded needs few."""
_CHUNK = 32
"""Kept lines that are coloured together where all of them are: a screen of them takes some milliseconds."""


def base_style(sign: str, palette: Palette) -> Style:
    return {"+": palette.added, "-": palette.removed}.get(sign, palette.text)


class PaintedHunk:
    def __init__(
        self, hunk: Hunk, palette: Palette, path: str = "", *, quiet: bool = False, whole: bool = False
    ) -> None:
        """`whole`: all lines get code colours, in chunks as they are asked for."""
        self.lines = hunk.lines
        self._palette = palette
        self._path = path or hunk.path
        self._quiet = quiet
        """Leave out the colour of the change: where everything is new it tells nothing."""
        self._kept = [index for index, line in enumerate(self.lines) if line.sign in (" ", "+")]
        self._rank = {index: rank for rank, index in enumerate(self._kept)} if whole else {}
        self._chunks: set[int] = set()
        self._coloured: dict[int, list[Run]] = {}
        self._coloured_to = 0
        self._stretch_of: dict[int, tuple[list[int], list[int]]] = {}
        for kind, removed, added in stretches(self.lines):
            if kind == "-" and removed and added:
                self._stretch_of |= dict.fromkeys((*removed, *added), (removed, added))
        self._pair_of: dict[int, Pair] = {}
        self._words: dict[int, Spans] = {}

    def prepare(self) -> None:
        """Find out which lines belong together in all of the hunk: in a long one that takes longer than a frame."""
        for index, (removed, added) in self._stretch_of.items():
            if index not in self._pair_of:
                self._pair(removed, added)

    def _pair(self, removed: Sequence[int], added: Sequence[int]) -> None:
        for pair in partners(self.lines, removed, added):
            for place in pair:
                if place is not None:
                    self._pair_of[place] = pair

    def runs(self, index: int) -> list[Run]:
        """A line of the hunk as it is painted, without its columns."""
        line, palette = self.lines[index], self._palette
        base = palette.text if self._quiet else base_style(line.sign, palette)
        runs = [(text, self._over(base, style)) for text, style in self._colours(index) or [(line.text, Style.null())]]
        if spans := self._changed(index):
            return list(_marked(runs, spans, palette.added_word if line.sign == "+" else palette.removed_word))
        return runs

    def _over(self, base: Style, style: Style) -> Style:
        # Comments are faint by intent; on the colour of a change they could not be read.
        if base.bgcolor and style == self._palette.syntax.get("comment"):
            return base
        return base + style

    def _changed(self, index: int) -> Spans:
        if index in self._stretch_of and index not in self._words:
            if index not in self._pair_of:
                self._pair(*self._stretch_of[index])
            old, new = self._pair_of[index]
            if old is not None and new is not None:
                found = changed_words(self.lines[old].text, self.lines[new].text)
                self._words[old], self._words[new] = found
            else:
                self._words[index] = []
        return self._words.get(index, [])

    def _colours(self, index: int) -> list[Run]:
        """Code colours of what is there after the change; what goes stays in one colour."""
        if self.lines[index].sign not in (" ", "+") or not self._palette.colours:
            return []
        if self._rank:
            chunk = self._rank[index] // _CHUNK
            if chunk not in self._chunks:
                self._chunks.add(chunk)
                self._colour(self._kept[chunk * _CHUNK : (chunk + 1) * _CHUNK])
            return self._coloured.get(index, [])
        while index not in self._coloured and self._coloured_to < min(_MOST_COLOURED, len(self._kept)):
            self._coloured_to = _MOST_COLOURED if self._coloured_to else _FIRST_COLOURED
            self._colour(self._kept[: self._coloured_to])
        return self._coloured.get(index, [])

    def _colour(self, places: Sequence[int]) -> None:
        from agentcli.tui.blocks.highlight import highlight

        language = language_of(self._path) if self._path else ""
        if not language:
            return
        texts = [self.lines[index].text for index in places]
        for index, runs in zip(places, highlight("\n".join(texts), language, self._palette), strict=False):
            if "".join(text for text, _style in runs) == self.lines[index].text:
                self._coloured[index] = runs


def stretches(lines: Sequence[DiffLine]) -> Iterator[tuple[str, list[int], list[int]]]:
    """Changes as (removed lines, added lines that follow them), all else line by line.

    A note between the two sides ("No newline at end of file") does not tear them apart: it comes after them."""
    place = 0
    while place < len(lines):
        if lines[place].sign not in ("-", "+"):
            yield " ", [place], []
            place += 1
            continue
        removed: list[int] = []
        added: list[int] = []
        notes: list[int] = []
        while place < len(lines):
            sign = lines[place].sign
            if sign == "-" and not added:
                removed.append(place)
            elif sign == "+":
                added.append(place)
            elif sign == "" and not added and place + 1 < len(lines) and lines[place + 1].sign == "+":
                notes.append(place)
            else:
                break
            place += 1
        yield "-", removed, added
        for note in notes:
            yield " ", [note], []


def partners(lines: Sequence[DiffLine], removed: Sequence[int], added: Sequence[int]) -> list[Pair]:
    """Places of lines that belong together."""
    return pairs([lines[at].text for at in removed], [lines[at].text for at in added], removed, added)


def _marked(runs: Sequence[Run], spans: Spans, word: Style) -> Iterator[Run]:
    """The runs, with another style over the spans (which are in order)."""
    start = 0
    for text, style in runs:
        end, place = start + len(text), start
        for first, last in spans:
            if last <= place or first >= end:
                continue
            if first > place:
                yield text[place - start : first - start], style
            yield text[max(first, place) - start : min(last, end) - start], style + word
            place = min(last, end)
        if place < end:
            yield text[place - start :], style
        start = end
