"""Runs of quiet calls, each shown as one line: which calls are quiet, which of them form a run, its summary.

Quiet is a successful call that only looked at something, or a command with little output that changed no file.
Failures, edits, questions, task lists and the user's own commands never are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from agentcli.core.text.format import counted, duration
from agentcli.core.text.unified_diff import is_diff
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import Run, clip
from agentcli.tui.model import Item, ThinkingItem, ToolItem
from agentcli.tui.theme.palette import Palette
from agentcli.tui.transcript.stack import Stack, StackEntry

MAX_LINES = 8
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
    return output.count("\n", 0, 100_000) < MAX_LINES and not is_diff(output)


def is_thought(item: Item) -> bool:
    """Whether an item between two quiet calls is hidden with them."""
    return isinstance(item, ThinkingItem) and item.seconds is not None


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
