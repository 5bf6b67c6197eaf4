"""Two steps that leave out old tool results: superseded ones (snip) and ones that can be obtained again (microcompact).

Snip replaces provably superseded content by one short line: a Read result whose lines were read again later; one of a
file that was completely written since (the new content is in that call); one of a file that was changed since, if most
of its lines were read again; an older result of the same call with the same content; a tool's pictures from many turns
ago. Tools are recognised by name, the lines of a Read result by the line numbers in it. An image that the user attached
is never superseded.

Microcompact clears results above a threshold or when the prompt cache is cold, in batches that are worth the broken
cache. The call stays in the conversation; a line in place of its result says how to get it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentcli.context.budget import note_of
from agentcli.context.edits import ContextEdit
from agentcli.context.estimate import block_tokens
from agentcli.context.steps import (
    AnsweredCall,
    ContextState,
    ResultReader,
    StepPlan,
    newest_exchange,
    path_of,
    same_call,
)
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, Json, Message, TextBlock, ToolResultBlock
from agentcli.core.text.format import counted
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import plain_line

READ_AGAIN = "[Read again later: see below]"
WRITTEN_WHOLE = "[The file was written whole later: see below]"
CHANGED_AND_READ = "[The file was changed and read again later: see below]"
REPEATED = "[The same call gave the same result later: see below]"
OLD_PICTURE = "[A picture of many turns ago stood here. Look at it again, or ask for it, if it matters.]"
MIN_FREED = 25
"""Minimum tokens freed by replacing a result with a line."""
_MIN_CHARACTERS = 200
_CHANGES = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_NUMBERED = lazy_pattern(r"(\d{1,9})\t")
_CHANGES_FOLDER = lazy_pattern(r"\b(?:cd|pushd|popd)\b")


@frozen
class _Reading:
    called: AnsweredCall
    lines: tuple[int, int] | None
    """First and last line number; None without numbered lines."""
    whole: bool
    changes: int
    """Number of earlier changes to the file in the conversation."""

    @property
    def asked(self) -> str:
        return same_call(self.called.name, self.called.input)


@frozen
class _Superseded:
    older: AnsweredCall
    newer: AnsweredCall
    edit: ContextEdit


class Snip:
    name = "snip"

    def __init__(self, picture_replies: int = 10) -> None:
        """`picture_replies`: number of replies for which pictures from tools stay."""
        self._picture_replies = picture_replies
        self._results = ResultReader()
        self._forget()

    def _forget(self) -> None:
        self._readings: dict[str, tuple[_Reading, ...]] = {}
        """Readings that are not superseded, by file."""
        self._changes: dict[str, int] = {}
        self._latest: dict[str, AnsweredCall] = {}
        """Latest call by `same_call` key."""
        self._folder = 0
        """Incremented when a command may have changed the directory, which changes relative paths."""
        self._superseded: list[_Superseded] = []
        self._pictures: list[AnsweredCall] = []
        """Results of tools with pictures."""

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        self._take_in(shown)
        if not self._superseded and not self._pictures:
            return None
        newest = newest_exchange(shown)
        # What was edited is not considered again, even if the user restores it.
        self._superseded = [one for one in self._superseded if state.edited(one.older.block) is None]
        self._pictures = [called for called in self._pictures if state.edited(called.block) is None]
        snipped = [
            one.edit
            for one in self._superseded
            if one.older.place < newest and one.older.block not in state.pinned
            if state.edited(one.newer.block) is None
        ]
        twice = {one.older.block for one in self._superseded}
        replies = [place for place, message in enumerate(shown) if message.role == "assistant"]
        begin = min(newest, replies[-self._picture_replies] if len(replies) >= self._picture_replies else 0)
        pictures = [
            _replaced(called, f"{called.result.text}\n{OLD_PICTURE}".strip())
            for called in self._pictures
            if called.place < begin and called.block not in twice and called.block not in state.pinned
        ]
        counts = [
            (len(snipped), "superseded result", "superseded results"),
            (len(pictures), "old picture of a tool", "old pictures of tools"),
        ]
        parts = [counted(*one) for one in counts if one[0]]
        return StepPlan((*snipped, *pictures), f"left out {' and '.join(parts)}") if parts else None

    def _take_in(self, shown: Sequence[Message]) -> None:
        fresh = self._results.look(shown)
        if fresh.started_over:
            self._forget()
        for called in fresh.results:
            path = path_of(called.input)
            if called.name == "Read" and path is not None and not called.result.is_error:
                self._take_reading(self._file(path), called)
            elif called.name in _CHANGES and path is not None and not called.result.is_error:
                self._take_change(self._file(path), called)
            else:
                self._take_repeated(called)
            if called.name == "Bash" and _CHANGES_FOLDER.search(str(called.input.get("command", ""))):
                self._folder += 1
            if any(isinstance(part, ImageBlock) for part in called.result.content):
                self._pictures.append(called)

    def _file(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._folder}:{path}"

    def _take_reading(self, file: str, called: AnsweredCall) -> None:
        reading = _read_reading(called, self._changes.get(file, 0))
        kept = [reading]
        for old in self._readings.get(file, ()):
            if _covers(reading, old):
                self._supersede(old.called, called, READ_AGAIN)
            elif old.changes < reading.changes and _shows_most_of(reading, old):
                self._supersede(old.called, called, CHANGED_AND_READ)
            else:
                kept.append(old)
        self._readings[file] = tuple(kept)

    def _take_change(self, file: str, called: AnsweredCall) -> None:
        self._changes[file] = self._changes.get(file, 0) + 1
        if called.name == "Write":
            for old in self._readings.pop(file, ()):
                self._supersede(old.called, called, WRITTEN_WHOLE)

    def _take_repeated(self, called: AnsweredCall) -> None:
        if called.characters < _MIN_CHARACTERS or not called.only_text:
            return
        key = same_call(called.name, called.input)
        old = self._latest.get(key)
        if old is not None and (old.result.is_error, old.result.text) == (called.result.is_error, called.result.text):
            self._supersede(old, called, REPEATED)
        self._latest[key] = called

    def _supersede(self, older: AnsweredCall, newer: AnsweredCall, line: str) -> None:
        edit = _replaced(older, line)
        if edit.freed >= MIN_FREED:
            self._superseded.append(_Superseded(older, newer, edit))


def _replaced(called: AnsweredCall, line: str) -> ContextEdit:
    freed = block_tokens(called.result) - block_tokens(TextBlock(line))
    return ContextEdit(kind="replace", target=called.block, text=line, step=Snip.name, freed=max(0, freed))


def _read_reading(called: AnsweredCall, changes: int) -> _Reading:
    text = called.result.text
    first = _NUMBERED.match(text)
    if first is None or not called.only_text:
        return _Reading(called, None, False, changes)
    end = len(text)
    while True:  # Notes of Read follow the lines and have no numbers.
        begin = text.rfind("\n", 0, end) + 1
        last = _NUMBERED.match(text, begin, end)
        if last is not None:
            break
        end = begin - 1
    whole = first[1] == "1" and not called.is_partial
    return _Reading(called, (int(first[1]), int(last[1])), whole, changes)


def _covers(new: _Reading, old: _Reading) -> bool:
    if new.lines is None or old.lines is None:
        return new.asked == old.asked
    return new.whole or (new.lines[0] <= old.lines[0] and new.lines[1] >= old.lines[1])


def _shows_most_of(new: _Reading, old: _Reading) -> bool:
    if new.lines is None or old.lines is None:
        return False
    both = min(new.lines[1], old.lines[1]) - max(new.lines[0], old.lines[0]) + 1
    return 2 * both >= old.lines[1] - old.lines[0] + 1


ClearableTools = Mapping[str, tuple[str, str]]
"""Tools whose old results may be cleared: the most telling argument, and how to get such a result again. Results of
others (MCP servers, sub-agents, the user) may not be available a second time."""

MIN_BATCH = 10_000
MIN_BATCH_SHARE = 0.1
_MIN_CLEARED = 400
"""Shorter results are hardly longer than their replacement line."""
_MAX_SUBJECT = 80


class Microcompact:
    name = "microcompact"

    def __init__(self, clearable: ClearableTools, keep: int = 8, threshold: float = 0.6) -> None:
        """`keep`: number of the newest results of clearable tools that stay, whatever their size."""
        self._clearable = clearable
        self._keep = keep
        self._threshold = threshold
        self._results = ResultReader()
        self._found: list[AnsweredCall] = []
        """All results of clearable tools, oldest first."""
        self._edits: dict[str, tuple[ContextEdit | None, ContextEdit]] = {}
        """The clearing edit of each block, with the edit that was active when it was made."""

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        fresh = self._results.look(shown)
        if fresh.started_over:
            self._found, self._edits = [], {}
        self._found += [called for called in fresh.results if called.name in self._clearable]
        if state.share < self._threshold and not state.cache_cold:
            return None
        newest = newest_exchange(shown)
        old = self._found[: max(0, len(self._found) - self._keep)]
        edits = [
            edit
            for called in old
            if called.place < newest and called.block not in state.pinned and _is_large(called)
            if (edit := self._clear(called, state)) is not None
        ]
        if not edits or sum([edit.freed for edit in edits]) < min(MIN_BATCH, state.usable * MIN_BATCH_SHARE):
            return None
        count = "an old result" if len(edits) == 1 else f"{len(edits):,} old results"
        return StepPlan(edits, f"cleared {count}")

    def _clear(self, called: AnsweredCall, state: ContextState) -> ContextEdit | None:
        """The edit that clears a result; None if it was edited before, unless it was only moved to a file."""
        before = state.edited(called.block)
        if before is not None and (before.kind, before.step) != ("replace", "budget"):
            self._edits.pop(called.block, None)
            return None
        known = self._edits.get(called.block)
        if known is None or known[0] is not before:
            line = cleared_line(called, *self._clearable[called.name])
            old: TextBlock | ToolResultBlock = called.result
            if before is not None:  # The path of the file must stay visible.
                old, line = TextBlock(before.text), f"{line}\n{note_of(before.text)}"
            freed = block_tokens(old) - block_tokens(TextBlock(line))
            edit = ContextEdit(kind="replace", target=called.block, text=line, step=self.name, freed=max(0, freed))
            known = self._edits[called.block] = (before, edit)
        return known[1] if known[1].freed else None


def cleared_line(called: AnsweredCall, subject: str, again: str) -> str:
    """The replacement line of a cleared result, with bounded length."""
    what = f"{called.name} {plain_line(_text(called.input, subject), _MAX_SUBJECT)}".rstrip()
    lines = called.result.text.count("\n") + 1
    size = (
        f"{lines:,} lines" if lines > 1 else f"{called.characters:,} characters" if called.characters else "a picture"
    )
    return f"[Cleared to make room: the old result of {what} ({size}). {again}]"


def _is_large(called: AnsweredCall) -> bool:
    return called.characters >= _MIN_CLEARED or any(isinstance(part, ImageBlock) for part in called.result.content)


def _text(input: Json, name: str) -> str:
    value = input.get(name)
    return value if isinstance(value, str) else ""
