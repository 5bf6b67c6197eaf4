"""Runs of quiet calls that are shown as one line until they are opened.

Only neighbours of a changed block are looked at, so that a change costs the same in any conversation. What a run hides
stays in its blocks: search, copying of the whole text and opening find it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.quiet_calls import is_quiet, is_thought, summary
from agentcli.tui.blocks.wrap import Run, clip
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.stack import Stack, StackEntry


class CallFold:
    """A run of quiet calls, with the thoughts between them."""

    def __init__(self, entries: list[StackEntry]) -> None:
        self.entries = entries
        self.is_open = False
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


class CallFolds:
    """All runs of a stack. `changed` is called for each block that a run begins or stops to hide."""

    def __init__(self, stack: Stack, changed: Callable[[StackEntry], None]) -> None:
        self._stack = stack
        self._changed = changed

    def update(self, entry: StackEntry) -> None:
        """Update the runs around a block that was added or whose item has changed."""
        fold, item = entry.fold, entry.block.item
        if fold is not None:
            is_inside = fold.entries[0] is not entry is not fold.entries[-1]
            if is_quiet(item) or (is_inside and is_thought(item)):
                self._changed(fold.entries[0])
                # Blocks that were added together: the next one may not have been looked at.
                if fold.entries[-1] is entry and (after := self._nearest(entry, 1)):
                    self._join([entry, *after])
                return
            self._split(fold)
        if not is_quiet(item) and not is_thought(item):
            return
        before, after = self._nearest(entry, -1), self._nearest(entry, 1)
        if (before and after) or (is_quiet(item) and (before or after)):
            self._join([*reversed(before), entry, *after])

    def removed(self, entry: StackEntry) -> None:
        """Update the runs around a block that was just removed."""
        if entry.fold is not None:
            self._split(entry.fold)
        if 0 < entry.index <= len(self._stack.entries):
            self.update(self._stack.entries[entry.index - 1])

    def _nearest(self, entry: StackEntry, way: int) -> list[StackEntry]:
        """The next quiet call in one direction, after the thoughts before it; empty if something else is between."""
        found: list[StackEntry] = []
        for other in self._walk(entry, way):
            found.append(other)
            if is_quiet(other.block.item):
                return found
            if not is_thought(other.block.item):
                return []
        return []

    def _walk(self, entry: StackEntry, way: int) -> Iterator[StackEntry]:
        entries = self._stack.entries
        index = self._stack.index(entry) + way
        while 0 <= index < len(entries):
            yield entries[index]
            index += way

    def _join(self, entries: Sequence[StackEntry]) -> None:
        """Make one run of these entries and of the runs that its first and last entry belong to."""
        first, last = entries[0].fold, entries[-1].fold
        if first is not None and last is None:
            # The usual case: a call ended below its run.
            new = [entry for entry in entries if entry.fold is None]
            first.entries.extend(new)
            fold = first
        else:
            head = first.entries[:-1] if first is not None else []
            tail = last.entries[1:] if last is not None else []
            new = [*head, *entries, *tail]
            fold = CallFold(new)
            fold.is_open = any(one is not None and one.is_open for one in (first, last))
        for entry in new:
            entry.fold = fold
            self._changed(entry)
        self._changed(fold.entries[0])

    def _split(self, fold: CallFold) -> None:
        """Undo a run and make new ones of what is left of it."""
        for entry in fold.entries:
            entry.fold = None
            self._changed(entry)
        for entry in fold.entries:
            if entry.alive and entry.fold is None and is_quiet(entry.block.item):
                before = self._nearest(entry, -1)
                if before:
                    self._join([*reversed(before), entry])
