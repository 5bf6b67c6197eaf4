"""All blocks of the conversation, independent of the screen: operations, layout, and runs of quiet calls in one line.

Errors of a block are caught and logged here, so that the other blocks are still shown.

Quiet is a successful call that only looked at something, or a command with little output that changed no file.
Failures, edits, questions, task lists and the user's own commands never are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.text.format import counted, duration
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.core.text.unified_diff import is_diff
from agentcli.tui.blocks.base import Block, BlockLine, Run, clip
from agentcli.tui.model import (
    Above,
    Add,
    Clear,
    CountLines,
    Grow,
    Item,
    Operation,
    Remove,
    Replace,
    ThinkingItem,
    ToolItem,
    pack_item,
)
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.stack import Stack, StackEntry

MAX_QUIET_LINES = 8
"""Lines of output of a quiet command; more of them are likely to be of interest."""
_WORDS = {
    "Read": ("read", "file"),
    "NotebookRead": ("read", "file"),
    "Grep": ("searched for", "pattern"),
    "Glob": ("searched for", "pattern"),
    "Bash": ("ran", "command"),
    "WebFetch": ("fetched", "page"),
    "WebSearch": ("ran", "web search"),
}
_SUBJECTS = {"Read": "file_path", "NotebookRead": "notebook_path"}
"""Inputs of tools that count once for each different value."""


def is_quiet(item: Item) -> bool:
    if not isinstance(item, ToolItem) or item.name not in _WORDS or item.status != "done":
        return False
    if item.background or item.has_changes or item.learned:
        return False
    return item.name != "Bash" or _is_short(item)


def _is_short(item: ToolItem) -> bool:
    display = item.display  # read once: it may be packed
    text = display.get("text")
    output = text if isinstance(text, str) else item.output
    return output.count("\n", 0, 100_000) < MAX_QUIET_LINES and not is_diff(output)


def role_of(item: Item) -> str:
    """What a block can be in a run of quiet calls: a `call`, a `thought` between two calls, or nothing ("")."""
    if is_quiet(item):
        return "call"
    return "thought" if isinstance(item, ThinkingItem) and item.seconds is not None else ""


def summary(items: Iterable[Item]) -> str:
    """`Read 3 files, ran 2 commands`, in the order in which they began."""
    found: dict[tuple[str, str], set[str]] = {}
    seconds = 0.0
    for item in items:
        if isinstance(item, ToolItem):
            subject = item.input.get(_SUBJECTS.get(item.name, ""))
            found.setdefault(_WORDS[item.name], set()).add(subject if isinstance(subject, str) else item.id)
        elif isinstance(item, ThinkingItem):
            seconds += item.seconds or 0.0
    parts = [f"{verb} {counted(len(subjects), noun)}" for (verb, noun), subjects in found.items()]
    parts += [f"thought for {duration(seconds)}"] if seconds >= 1 else []
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


class CallFold:
    """A run of quiet calls, with the thoughts between them."""

    def __init__(self, entries: list[StackEntry], *, is_open: bool) -> None:
        self.entries = entries
        self.is_open = is_open
        """Whether the user opened this run; its blocks are shown as usual below its line."""

    def hides(self, entry: StackEntry) -> bool:
        """A block that is expanded, for its details or for a match of a search, is shown."""
        return not self.is_open and not entry.block.expanded

    def line(self, width: int, palette: Palette) -> BlockLine:
        is_open = not any(self.hides(entry) for entry in self.entries)
        text = summary(entry.block.item for entry in self.entries)
        sign: list[Run] = [("▾ " if is_open else "▸ ", palette.faint)] if width >= 8 else []
        hint = " · Ctrl+O" if not is_open and len(text) + 11 <= width else ""
        shown = clip([*sign, (text, palette.muted), (hint, palette.faint)], max(1, width))
        return BlockLine(shown.strip, text, min(2, shown.strip.cell_length) if sign else 0)


def form_run(stack: Stack, index: int) -> list[StackEntry]:
    """Make one fold of the quiet calls around an index, if there are at least two. Return the blocks whose lines
    change."""
    entries = stack.entries
    if not (0 <= index < len(entries) and entries[index].role):
        return []
    first = last = index
    while first and entries[first - 1].role:
        first -= 1
    while last + 1 < len(entries) and entries[last + 1].role:
        last += 1
    run = entries[first : last + 1]
    calls = [number for number, entry in enumerate(run) if entry.role == "call"]
    inside = run[calls[0] : calls[-1] + 1] if len(calls) > 1 else []
    fold = CallFold(inside, is_open=any(entry.fold is not None and entry.fold.is_open for entry in run))
    changed: list[StackEntry] = []
    for number, entry in enumerate(run):
        before, entry.fold = entry.fold, fold if inside and calls[0] <= number <= calls[-1] else None
        was_first = before is not None and before.entries[0] is entry
        if (before is None) != (entry.fold is None) or was_first or entry in inside[:1]:
            changed.append(entry)
    return changed


MAX_ROWS = 1000
"""Maximum number of cached rows of blocks out of view: about 25 screens. A row takes about 5 KB."""
FOLDED_ROWS = 4
"""Estimated maximum height of a block that has been folded out of view."""
UNPACKED = 100
"""Number of items at the end whose texts stay uncompressed. Earlier ones are packed, and unpacked for a layout."""


class BrokenBlock(Block):
    def __init__(self, item: Item, error: Exception) -> None:
        super().__init__(item)
        self.error = error

    def layout(self, width: int, palette: Palette) -> Sequence[BlockLine]:
        return [cannot_show(self.error, width, palette.error)]

    def grow(self, text: str, colours: Sequence[ColourSpan] = ()) -> None:
        """Ignored: there is no content to extend."""


def cannot_show(error: Exception, width: int, style: Style) -> BlockLine:
    reason = plain_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    text = f"(this block cannot be shown: {reason})"
    return BlockLine(Strip([Segment(text, style)]).crop(0, max(1, width)), text)


T = TypeVar("T")


def _safely(what: str, culprit: Item | Block, call: Callable[[], T], instead: Callable[[Exception], T]) -> T:
    """Call something of a block. If that fails, log it, so that the other blocks are still shown."""
    try:
        return call()
    except Exception as error:
        logging.getLogger("agentcli").exception("%s %s", what, type(culprit).__name__)
        return instead(error)


class TranscriptItems:
    def __init__(self, make_block: Callable[[Item], Block], palette: Palette) -> None:
        self._make_block = make_block
        self.stack = Stack()
        self.palette = palette
        self.width = 0
        """Width of the layout in cells; 0 before the first one."""
        self.details = False
        """Whether all blocks are expanded."""
        self.on_change: Callable[[StackEntry], object] = lambda _entry: None
        """Called for each block that is added, removed, or has outdated lines."""
        self._kept: dict[StackEntry, int] = {}
        """Number of rows of the entries that have lines, least recently used first."""
        self.rows_kept = 0

    # ---------------------------------------------------------------------------------------------------- content

    def apply(self, operations: Iterable[Operation]) -> bool:
        """Apply operations without layout. Return whether anything was added below."""
        more = False
        for operation in operations:
            match operation:
                case Add(item):
                    self._add(item)
                    more = True
                case Grow(id, text, colours):
                    more |= self._change(id, lambda block, grown=(text, colours): block.grow(*grown))  # type: ignore[misc]
                case CountLines(id, line_breaks):
                    self._change(id, lambda block, count=line_breaks: block.count_lines(count))  # type: ignore[misc]
                case Replace(item):
                    self._replace(item)
                case Above(items):
                    self._put_above(items)
                case Remove(id):
                    if (entry := self.stack.remove(id)) is not None:
                        self._forget_lines(entry)
                        self.on_change(entry)
                        index = self.stack.index(entry)
                        self._form_run(index - 1)
                        self._form_run(index)
                case Clear():
                    for entry in self.stack:
                        self._forget_lines(entry)
                        self.on_change(entry)
                    self.stack.clear()
        return more

    def _add(self, item: Item) -> None:
        if self.stack.get(item.id) is not None:
            self._replace(item)
            return
        entry = self.stack.add(*self._make(item))
        self.on_change(entry)
        self._update_run(entry)
        if len(self.stack) > UNPACKED:
            self.stack.entries[-1 - UNPACKED].block.pack()

    def _replace(self, item: Item) -> None:
        entry = self.stack.get(item.id)
        if entry is None:
            return
        if type(entry.block.item) is type(item):
            self._change(item.id, lambda block: block.replace(item))
        else:
            # A call has become an agent: replace its block in place.
            entry.block = self._make(item)[0]
            self.stack.changed(entry)
            self.make_stale(entry)
        self._update_run(entry)

    def _put_above(self, items: Sequence[Item]) -> None:
        self.stack.put_above([self._make(item) for item in items])
        for entry in self.stack.entries[: len(items)]:
            self.on_change(entry)
            self._update_run(entry)
            pack_item(entry.block.item)

    def _make(self, item: Item) -> tuple[Block, int]:
        """Make a block and estimate its number of rows."""
        block: Block = _safely(
            "no block can be made for",
            item,
            lambda: self._make_block(item),
            lambda error: BrokenBlock(item, error),
        )
        block.expanded = block.expanded or self.details
        return block, 1 + len(str(getattr(item, "text", ""))) // 80

    def _change(self, id: str, change: Callable[[Block], None]) -> bool:
        entry = self.stack.get(id)
        if entry is None:
            return False
        _safely("a change cannot be shown in", entry.block, lambda: change(entry.block), lambda _error: None)
        self.make_stale(entry)
        return True

    def make_stale(self, entry: StackEntry) -> None:
        """Mark a block whose lines are outdated."""
        entry.stale = True
        self.on_change(entry)

    def tick(self, entries: Iterable[StackEntry], now: float) -> bool:
        changed = False
        for entry in entries:
            block = entry.block
            if _safely("the clock stands still in", block, partial(block.tick, now), lambda _error: False):
                self.make_stale(entry)
                changed = True
        return changed

    def source_text(self) -> str:
        sources = (entry.block.source.strip("\n") for entry in self.stack)
        return "".join(f"{source}\n\n" for source in sources if source.strip()).rstrip("\n") + "\n"

    # --------------------------------------------------------------------------------------------------- folding

    def _update_run(self, entry: StackEntry) -> None:
        """Update the runs around a block that was added or whose item has changed."""
        before, entry.role = entry.role, role_of(entry.block.item)
        index = self.stack.index(entry)
        if entry.role:
            self._form_run(index)
        elif before:
            if entry.fold is not None:
                entry.fold = None
                self._refold(entry)
            self._form_run(index - 1)
            self._form_run(index + 1)

    def _form_run(self, index: int) -> None:
        for entry in form_run(self.stack, index):
            self._refold(entry)

    def _refold(self, entry: StackEntry) -> None:
        """Lay a block out again that a run of calls begins or stops to hide."""
        self.make_stale(entry)
        fold = entry.fold
        if fold is not None and fold.hides(entry):
            entry.block.foldable = True
            self.drop_lines(entry)
            self.stack.set_rows(entry, 1 if fold.entries[0] is entry else 0)

    def toggle_fold(self, fold: CallFold) -> None:
        """Open a run of quiet calls, or close it with all its blocks."""
        fold.is_open = any(fold.hides(entry) for entry in fold.entries)
        for entry in fold.entries:
            entry.block.expanded &= fold.is_open
            self.drop_lines(entry)
            self._refold(entry)

    def toggle_details(self) -> None:
        self.details = not self.details
        for entry in self.stack:
            self.expand(entry, self.details)

    def expand(self, entry: StackEntry, expanded: bool) -> None:
        block = entry.block
        if block.expanded == expanded:
            return
        folds = block.foldable or block.expanded
        block.expanded = expanded
        if folds:
            self.drop_lines(entry)
            self.make_stale(entry)
            if not expanded:
                self.stack.set_rows(entry, min(entry.rows, FOLDED_ROWS))
            if entry.fold is not None:
                self.make_stale(entry.fold.entries[0])

    # ---------------------------------------------------------------------------------------------------- layout

    def lines(self, entry: StackEntry) -> Sequence[BlockLine]:
        if entry.lines is None or entry.stale:
            entry.lines = self._lay_out(entry)
            entry.stale = False
            self.stack.set_rows(entry, len(entry.lines))
        rows = len(entry.lines)
        self.rows_kept += rows - self._kept.pop(entry, 0)
        self._kept[entry] = rows
        return entry.lines

    def whole_lines(self, entry: StackEntry) -> Sequence[BlockLine]:
        """All lines of a block, also those that it would leave to later calls."""
        lines = self.lines(entry)
        while entry.block.behind:
            entry.stale = True
            lines = self.lines(entry)
        return lines

    def _lay_out(self, entry: StackEntry) -> Sequence[BlockLine]:
        def lay_out() -> Sequence[BlockLine]:
            fold = entry.fold
            heading = [fold.line(self.width, self.palette)] if fold is not None and fold.entries[0] is entry else []
            if fold is not None and fold.hides(entry):
                entry.block.foldable = True
                return heading
            # A copy, because a block may change its list in place, while painting compares with the old lines.
            return [*heading, *entry.block.layout(self.width, self.palette)]

        return _safely(
            "a block cannot be shown:",
            entry.block,
            lay_out,
            lambda error: [cannot_show(error, self.width, self.palette.error)],
        )

    def set_width(self, width: int) -> None:
        """Set the width; all heights become estimates. Only entries with lines are touched, however many there are."""
        self.width = width
        for entry in self._kept:
            entry.lines = None
            self.on_change(entry)
        self._kept.clear()
        self.rows_kept = 0

    def set_palette(self, palette: Palette) -> None:
        """Set the colours, which does not change heights."""
        self.palette = palette
        for entry in self.stack:
            self.drop_lines(entry)

    def drop_lines(self, entry: StackEntry) -> None:
        """Drop the lines, which will be laid out again; keep the height."""
        self._forget_lines(entry)
        _safely("a block cannot forget:", entry.block, entry.block.forget, lambda _error: None)

    def _forget_lines(self, entry: StackEntry) -> None:
        self.rows_kept -= self._kept.pop(entry, 0)
        entry.lines = None

    def trim(self, visible: set[StackEntry]) -> None:
        """Drop the least recently used lines, except those of visible blocks."""
        if self.rows_kept <= MAX_ROWS:
            return
        for entry in [entry for entry in self._kept if entry not in visible]:
            self.drop_lines(entry)
            if self.rows_kept <= MAX_ROWS:
                break
