"""Search in the conversation: parses queries, finds them on painted rows, and tracks the current match.

Searches the visible text, row by row with wrapped lines joined, and the source of folded blocks. The transcript does
layout and scrolling.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from agentcli.core.frozen import frozen
from agentcli.tui.blocks.base import Block, BlockLine
from agentcli.tui.glyphs import Cluster, clusters
from agentcli.tui.model import AnswerItem
from agentcli.tui.transcript.painting import StyledCells
from agentcli.tui.transcript.stack import StackEntry

if TYPE_CHECKING:
    from agentcli.tui.transcript.items import TranscriptItems
    from agentcli.tui.transcript.view import Viewport

MAX_MATCHES = 10_000
"""Maximum matches per block."""


class Spot(NamedTuple):
    """A part of a match on one row, in cells of the block."""

    row: int
    start: int
    end: int


FoundSpots = tuple[Spot, ...]


@frozen
class Query:
    """Case-sensitive only if the query has a capital; blanks match any white space, including the end of a line."""

    text: str
    pattern: re.Pattern[str]
    words: tuple[re.Pattern[str], ...]

    def may_be_in(self, block: Block) -> bool:
        """Cheap check that saves the layout of long answers: every visible word is also in their Markdown."""
        if not isinstance(block.item, AnswerItem):
            return True
        source = block.source
        return all(word.search(source) for word in self.words)

    def is_likely_in(self, block: Block) -> bool:
        """Whether a block's source contains all words, which costs a hundredth of a layout. Some visible words are not
        in the source, so blocks without them are searched later."""
        source = block.source.lower()
        return all(part in source for part in self.text.lower().split())


def parse_query(text: str) -> Query | None:
    parts = text.split()
    if not parts:
        return None
    flags = 0 if text != text.lower() else re.IGNORECASE
    words = re.findall(r"\w+", text)
    return Query(
        text,
        re.compile(r"\s+".join(re.escape(part) for part in parts), flags),
        tuple(re.compile(re.escape(word), flags) for word in words),
    )


def matches_in(lines: Sequence[BlockLine], query: Query) -> list[FoundSpots]:
    texts: list[str] = []
    starts: list[int] = []
    length = 0
    for line in lines:
        text = _visible(line)
        starts.append(length)
        texts.append(text + line.joint)
        length += len(text) + len(line.joint)
    found: list[FoundSpots] = []
    row = 0
    for match in query.pattern.finditer("".join(texts)):
        start, end = match.span()
        while row + 1 < len(starts) and starts[row + 1] <= start:
            row += 1
        spots: list[Spot] = []
        below = row
        while below < len(starts) and starts[below] < end:
            text = texts[below][: len(texts[below]) - len(lines[below].joint)]
            first, last = max(0, start - starts[below]), min(len(text), end - starts[below])
            if first < last:
                left, right = _cells(text, first, last)
                spots.append(Spot(below, lines[below].indent + left, lines[below].indent + right))
            below += 1
        if spots:
            found.append(tuple(spots))
        if len(found) >= MAX_MATCHES:
            break
    return found


def hidden_matches(block: Block, query: Query, shown: int) -> int:
    """Number of matches in the source of a folded block, besides the visible ones."""
    if not block.foldable or block.expanded:
        return 0
    return max(0, sum(1 for _match in islice(query.pattern.finditer(block.source), MAX_MATCHES)) - shown)


def _visible(line: BlockLine) -> str:
    """Painted text behind the gutter, without padding."""
    text = line.strip.text
    if not line.indent:
        return text.rstrip()
    if text.isascii():
        return text[line.indent :].rstrip()
    first: Cluster | None = next((cluster for cluster in clusters(text) if cluster.left >= line.indent), None)
    return text[first.start :].rstrip() if first else ""


def _cells(text: str, start: int, end: int) -> tuple[int, int]:
    if text.isascii():
        return start, end
    covered = [cluster for cluster in clusters(text) if cluster.end > start and cluster.start < end]
    return covered[0].left, covered[-1].right


class TranscriptSearch:
    """Matches found so far. Entries are unordered here; `step` uses the order of the conversation."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.found: dict[StackEntry, list[FoundSpots]] = {}
        self.hidden: dict[StackEntry, int] = {}
        """Folded blocks with hidden matches, and their number; opened when the search reaches them."""
        self.has_wrapped = False
        """Whether the last step wrapped around to the other end of the conversation."""
        self.current: tuple[StackEntry, int] | None = None
        self.due: deque[StackEntry] = deque()
        """Blocks to search next, the nearest first."""
        self.unlikely: deque[StackEntry] = deque()
        """Blocks to search after those: their source does not contain all words."""
        self._looked: dict[StackEntry, int] = {}
        """Searched version of each block's lines; keeping the lines themselves would take much memory."""

    def look(self, entry: StackEntry, lines: Sequence[BlockLine]) -> None:
        if self._looked.get(entry) == entry.version:
            return
        self._looked[entry] = entry.version
        self._keep(entry, matches_in(lines, self.query))

    def skip(self, entry: StackEntry) -> None:
        self._looked[entry] = -1
        self._keep(entry, [])

    def forget(self, entry: StackEntry) -> None:
        """Mark a changed block to be searched again; until then its old matches count."""
        self._looked.pop(entry, None)

    def forget_all(self) -> None:
        self._looked.clear()

    def removed(self, entry: StackEntry) -> None:
        self.found.pop(entry, None)
        self._looked.pop(entry, None)
        self.hidden.pop(entry, None)
        if self.current is not None and self.current[0] is entry:
            self.current = None

    def has_looked(self, entry: StackEntry) -> bool:
        return entry in self._looked

    @property
    def count(self) -> int:
        return sum(len(matches) for matches in self.found.values()) + sum(self.hidden.values())

    def position(self, order: Sequence[StackEntry]) -> int:
        """Number of the current match, counted from the top; 0 if there is none."""
        if self.current is None:
            return 0
        here, number = self.current
        before = sum(
            len(self.found.get(entry, ())) + self.hidden.get(entry, 0) for entry in order if entry.order < here.order
        )
        return before + number + 1

    def step(self, direction: int) -> bool:
        """Move to the next match, wrapping at the ends. Return False if there is none."""
        self.has_wrapped = False
        if self.current is not None:
            entry, number = self.current
            if 0 <= number + direction < len(self.found.get(entry, ())):
                self.current = entry, number + direction
                return True
        holders = sorted(self.found.keys() | self.hidden, key=lambda entry: entry.order)
        if not holders:
            self.current = None
            return False
        here = self.current[0].order if self.current is not None else None
        ahead = [entry for entry in holders if here is not None and (entry.order - here) * direction > 0]
        self.has_wrapped = here is not None and not ahead
        self.enter((ahead or holders)[0 if direction > 0 else -1], direction)
        return True

    def enter(self, entry: StackEntry, direction: int) -> None:
        self.current = entry, 0 if direction > 0 else max(0, len(self.found.get(entry, ())) - 1)

    def spots(self, entry: StackEntry) -> list[tuple[Spot, bool]]:
        now = self.current[1] if self.current is not None and self.current[0] is entry else -1
        return [(spot, number == now) for number, match in enumerate(self.found.get(entry, ())) for spot in match]

    def _keep(self, entry: StackEntry, matches: list[FoundSpots]) -> None:
        if matches:
            self.found[entry] = matches
        else:
            self.found.pop(entry, None)
        if hidden := hidden_matches(entry.block, self.query, len(matches)):
            self.hidden[entry] = hidden
        else:
            self.hidden.pop(entry, None)
        if self.current is not None and self.current[0] is entry:
            if entry not in self.found and entry not in self.hidden:
                self.current = None
            else:
                self.current = entry, min(self.current[1], max(0, len(matches) - 1))


class Finder:
    """Searches the conversation for a query and scrolls to the current match."""

    def __init__(self, items: TranscriptItems, view: Viewport) -> None:
        self._items = items
        self._view = view
        self._opened: list[StackEntry] = []
        """Folded blocks that the search opened to show a match."""
        self._keeps_current = False

    @property
    def _search(self) -> TranscriptSearch | None:
        return self._items.search

    @property
    def searching(self) -> bool:
        search = self._search
        if search is None:
            return False
        waiting = bool(search.due or search.unlikely)
        return waiting or not all(search.has_looked(entry) for entry in self._items.stack)

    @property
    def count(self) -> int:
        return self._search.count if self._search is not None else 0

    @property
    def position(self) -> int:
        return self._search.position(self._items.stack.entries) if self._search is not None else 0

    @property
    def has_wrapped(self) -> bool:
        return self._search is not None and self._search.has_wrapped

    def start(self, query: Query) -> None:
        self._items.search = TranscriptSearch(query)
        self._keeps_current = False

    def keep_current(self) -> None:
        """Leave the block with the current match open when the search ends."""
        self._keeps_current = True

    def stop(self) -> None:
        if (search := self._search) is not None:
            kept = search.current[0] if self._keeps_current and search.current is not None else None
            self._items.search = None
            self._view.keep_line(lambda: self._fold_opened(kept))
            self._view.hold(False)

    def _fold_opened(self, kept: StackEntry | None) -> None:
        opened, self._opened = self._opened, []
        for entry in opened:
            if entry is not kept and entry.alive and not self._items.details:
                self._items.expand(entry, False)

    def search(self, deadline: float) -> bool:
        """Search until the deadline: first the blocks that are likely to match, then the others. Return whether
        anything may have to be repainted."""
        search, has_looked = self._search, False
        if search is None:
            return False
        if not search.due and not search.unlikely:
            # The first time all blocks; later those that were added or changed.
            search.due.extend(entry for entry in self._view.nearest() if not search.has_looked(entry))
        while search.due or search.unlikely:
            is_first = bool(search.due)
            entry = (search.due or search.unlikely).popleft()
            if search.has_looked(entry) or self._items.stack.get(entry.block.item.id) is not entry:
                continue
            if is_first and not search.query.is_likely_in(entry.block):
                search.unlikely.append(entry)
            elif is_first or search.query.may_be_in(entry.block):
                self._look(search, entry)
                has_looked = True
            else:
                search.skip(entry)
            if perf_counter() >= deadline:
                break
        return has_looked or not self.searching

    def _look(self, search: TranscriptSearch, entry: StackEntry) -> None:
        search.look(entry, self._items.layouts.lines(entry))
        if search.current is None and (entry in search.found or entry in search.hidden):
            search.enter(entry, -1)
            self._show(search, -1)

    def step(self, direction: int) -> None:
        search = self._search
        if search is not None and search.step(direction):
            self._show(search, direction)

    def marks(self, entry: StackEntry) -> dict[int, list[StyledCells]]:
        search = self._search
        if search is None or entry.lines is None:
            return {}
        search.look(entry, entry.lines)
        palette = self._items.layouts.palette
        marks: dict[int, list[StyledCells]] = {}
        for spot, current in search.spots(entry):
            style = palette.match_current if current else palette.match
            marks.setdefault(spot.row, []).append((spot.start, spot.end, style))
        return marks

    def _show(self, search: TranscriptSearch, direction: int) -> None:
        """Scroll to the current match, opening a folded block that contains it."""
        while search.current is not None and search.current[0] in search.hidden:
            entry = search.current[0]
            self._items.expand(entry, True)
            self._opened.append(entry)
            search.look(entry, self._items.layouts.lines(entry))
            search.hidden.pop(entry, None)
            if entry in search.found:
                search.enter(entry, direction)
            else:
                has_wrapped = search.has_wrapped
                if not search.step(direction):
                    return
                search.has_wrapped |= has_wrapped
        if search.current is None:
            return
        entry, number = search.current
        self._items.layouts.lines(entry)
        self._view.settle()  # the layout moved the blocks below
        matches = search.found.get(entry, ())
        row = matches[min(number, len(matches) - 1)][0].row if matches else 0
        first = self._items.stack.first_row(entry) + row
        if not self._view.top < first < self._view.top + self._view.height - 1:
            self._view.look_at(entry, row)
            # Near the end of the conversation there are already rows above it.
            above = self._items.stack.first_row(entry) + row - self._view.top
            self._view.scroll(min(0, above - self._view.height // 3))
        self._view.hold(True)  # otherwise new output would scroll the match away
