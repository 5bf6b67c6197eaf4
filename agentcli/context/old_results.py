"""Three steps on tool results: those too large go to files (budget), superseded ones (snip) and ones that can be
obtained again (microcompact) are left out.

The budget is decided once, when a result is new, so that nothing already sent changes. The request shows the beginning,
the size and the file, so that the model can read the rest.

Snip replaces provably superseded content by one short line: a Read result whose lines were read again later; one of a
file that was completely written since (the new content is in that call); an older result of the same call with the same
content; a tool's pictures from many turns ago. Tools are recognised by name, the lines of a Read result by the line
numbers in it. An image that the user attached is never superseded.

Microcompact clears results above a threshold or when the prompt cache is cold, in batches that are worth the broken
cache. The call stays in the conversation; a line in place of its result says how to get it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from agentcli.context.edits import ContextEdit, block_id
from agentcli.context.estimate import block_tokens
from agentcli.context.steps import (
    AnsweredCall,
    ContextState,
    ResultReader,
    StepPlan,
    characters,
    is_only_text,
    newest_exchange,
    path_of,
    same_call,
)
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, Json, Message, TextBlock, ToolResultBlock
from agentcli.core.text.format import counted
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line

Save = Callable[[str, str], str | None]
"""(file name, text) -> path of the saved file, None if it could not be saved. Saving twice is allowed."""

HEAD = 2_000
TAIL_OF_ERROR = 1_000
"""Characters: error messages are mostly at the end of an output."""
HEAD_WITHOUT_FILE = 15_000
TAIL_WITHOUT_FILE = 5_000
_STAND_IN = HEAD + 500
"""Approximate characters of a replacement; results that are not much larger stay."""
_PLAIN_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,80}")


@frozen
class _Candidate:
    block: str
    result: ToolResultBlock
    characters: int
    """Size as shown in the request."""
    order: int
    free: bool
    """Whether no edit exists for it yet."""


class ToolResultBudget:
    name = "budget"

    def __init__(self, save: Save, limit: int = 50_000, per_message: int = 200_000) -> None:
        self._save = save
        self._limit = limit
        self._per_message = per_message

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        new = _list_unanswered(shown, state)
        over = [candidate for candidate in new if candidate.free and candidate.characters > self._limit]
        edits = {candidate.order: self._move(candidate) for candidate in over}
        total = sum(
            len(edits[candidate.order].text) if candidate.order in edits else candidate.characters for candidate in new
        )
        rest = [c for c in new if c.free and c.order not in edits and c.characters > 2 * _STAND_IN]
        # The largest first; results with pictures come last, because the pictures are lost.
        for candidate in sorted(rest, key=lambda c: (not is_only_text(c.result), -c.characters, c.order)):
            if total <= self._per_message:
                break
            edit = self._move(candidate)
            if len(edit.text) < candidate.characters:
                edits[candidate.order] = edit
                total -= candidate.characters - len(edit.text)
        if not edits:
            return None
        count = "a large result" if len(edits) == 1 else f"{len(edits)} large results"
        in_order = tuple(edits[order] for order in sorted(edits))
        return StepPlan(in_order, f"moved {count} out of the conversation", must=True)

    def _move(self, candidate: _Candidate) -> ContextEdit:
        result = candidate.result
        path = self._save(file_name(result), result.text)
        text = stand_in(result, path)
        freed = block_tokens(result) - block_tokens(ToolResultBlock(result.tool_use_id, (TextBlock(text),)))
        return ContextEdit(kind="replace", target=candidate.block, text=text, step=self.name, freed=max(0, freed))


def _list_unanswered(shown: Sequence[Message], state: ContextState) -> list[_Candidate]:
    """The results since the last reply, which form one message of the request."""
    begin = len(shown)
    while begin and shown[begin - 1].role != "assistant":
        begin -= 1
    found: list[_Candidate] = []
    for message in shown[begin:]:
        for number, block in enumerate(message.content):
            if not isinstance(block, ToolResultBlock):
                continue
            id = block_id(message, number)
            edit = state.edited(id)
            size = characters(block) if edit is None else len(edit.text)
            found.append(_Candidate(id, block, size, len(found), state.is_free(id)))
    return found


def stand_in(result: ToolResultBlock, path: str | None) -> str:
    """The text shown for a result that was moved to a file, or cut if it could not be saved."""
    text = result.text
    head_size, tail_size = (HEAD, 0) if path is not None else (HEAD_WITHOUT_FILE, TAIL_WITHOUT_FILE)
    if path is not None and result.is_error:
        head_size, tail_size = HEAD - TAIL_OF_ERROR, TAIL_OF_ERROR
    head = _whole_lines(text[:head_size])
    tail = text[len(text) - tail_size :] if tail_size else ""
    size = f"{len(text):,} characters, {text.count(chr(10)) + 1:,} lines"
    lost = "" if is_only_text(result) else " What it held beside text is left out."
    if path is not None:
        note = f"[The whole result ({size}) is in {path}: Read it with offset and limit, or search it with Grep.{lost}]"
    else:
        note = f"[The whole result had {size} and could not be kept: ask for less at once.{lost}]"
    if not tail:
        return f"{head}\n\n[… {len(text) - len(head):,} characters are not shown]\n{note}"
    return f"{head}\n\n[… {len(text) - len(head) - len(tail):,} characters are not shown]\n\n{tail}\n\n{note}"


def note_of(text: str) -> str:
    """The line of a `stand_in` text that names the file."""
    return text[text.rfind("\n") + 1 :]


def file_name(result: ToolResultBlock) -> str:
    """File name for a result. Ids are untrusted: one that is not a simple name is hashed."""
    id = result.tool_use_id
    plain = id if _PLAIN_NAME.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{plain}.txt"


def _whole_lines(head: str) -> str:
    """Cut at a line end, unless that drops too much."""
    end = head.rfind("\n")
    return head[:end] if end > len(head) * 3 // 4 else head


READ_AGAIN = "[Read again later: see below]"
WRITTEN_WHOLE = "[The file was written whole later: see below]"
REPEATED = "[The same call gave the same result later: see below]"
OLD_PICTURE = "[A picture of many turns ago stood here. Look at it again, or ask for it, if it matters.]"
MIN_FREED = 25
"""Minimum tokens freed by replacing a result with a line."""
_MIN_CHARACTERS = 200
_NUMBERED = lazy_pattern(r"(\d{1,9})\t")


@frozen
class _Reading:
    called: AnsweredCall
    lines: tuple[int, int] | None
    """First and last line number; None without numbered lines."""
    whole: bool

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
        self._latest: dict[str, AnsweredCall] = {}
        """Latest call by `same_call` key."""
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
            _replace(called, f"{called.result.text}\n{OLD_PICTURE}".strip())
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
            if called.name not in ("Read", "Write") or path is None or called.result.is_error:
                self._take_repeated(called)
            elif called.name == "Read":
                self._take_reading(path, called)
            else:
                for old in self._readings.pop(path, ()):
                    self._supersede(old.called, called, WRITTEN_WHOLE)
            if any(isinstance(part, ImageBlock) for part in called.result.content):
                self._pictures.append(called)

    def _take_reading(self, file: str, called: AnsweredCall) -> None:
        reading = _read_reading(called)
        kept = [reading]
        for old in self._readings.get(file, ()):
            if _covers(reading, old):
                self._supersede(old.called, called, READ_AGAIN)
            else:
                kept.append(old)
        self._readings[file] = tuple(kept)

    def _take_repeated(self, called: AnsweredCall) -> None:
        if called.characters < _MIN_CHARACTERS or not called.only_text:
            return
        key = same_call(called.name, called.input)
        old = self._latest.get(key)
        if old is not None and (old.result.is_error, old.result.text) == (called.result.is_error, called.result.text):
            self._supersede(old, called, REPEATED)
        self._latest[key] = called

    def _supersede(self, older: AnsweredCall, newer: AnsweredCall, line: str) -> None:
        edit = _replace(older, line)
        if edit.freed >= MIN_FREED:
            self._superseded.append(_Superseded(older, newer, edit))


def _replace(called: AnsweredCall, line: str) -> ContextEdit:
    freed = block_tokens(called.result) - block_tokens(TextBlock(line))
    return ContextEdit(kind="replace", target=called.block, text=line, step=Snip.name, freed=max(0, freed))


def _read_reading(called: AnsweredCall) -> _Reading:
    text = called.result.text
    first = _NUMBERED.match(text)
    if first is None or not called.only_text:
        return _Reading(called, None, False)
    end = len(text)
    while True:  # Notes of Read follow the lines and have no numbers.
        begin = text.rfind("\n", 0, end) + 1
        last = _NUMBERED.match(text, begin, end)
        if last is not None:
            break
        end = begin - 1
    whole = first[1] == "1" and not called.is_partial
    return _Reading(called, (int(first[1]), int(last[1])), whole)


def _covers(new: _Reading, old: _Reading) -> bool:
    if new.lines is None or old.lines is None:
        return new.asked == old.asked
    return new.whole or (new.lines[0] <= old.lines[0] and new.lines[1] >= old.lines[1])


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
            line = format_cleared(called, *self._clearable[called.name])
            old: TextBlock | ToolResultBlock = called.result
            if before is not None:  # The path of the file must stay visible.
                old, line = TextBlock(before.text), f"{line}\n{note_of(before.text)}"
            freed = block_tokens(old) - block_tokens(TextBlock(line))
            edit = ContextEdit(kind="replace", target=called.block, text=line, step=self.name, freed=max(0, freed))
            known = self._edits[called.block] = (before, edit)
        return known[1] if known[1].freed else None


def format_cleared(called: AnsweredCall, subject: str, again: str) -> str:
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
