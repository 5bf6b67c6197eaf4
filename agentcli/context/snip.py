"""Snip: replace provably superseded content by one short line, without a model call.

Superseded are: a Read result whose lines were read again later; one of a file that was completely written since (the
new content is in that call); one of a file that was changed since, if most of its lines were read again; an older
result of the same call with the same content; a tool's pictures from many turns ago. Tools are recognised by name, the
lines of a Read result by the line numbers in it. An image that the user attached is never superseded: an old one leaves
only when the context is nearly full, named as what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentcli.context.edits import ContextEdit, block_id
from agentcli.context.estimate import block_tokens
from agentcli.context.results import AnsweredCall, NewResults, ResultReader, path_of, same_call
from agentcli.context.steps import NEARLY_FULL, ContextState, StepPlan, StepTotal, newest_exchange
from agentcli.core.append_only import AppendOnly
from agentcli.core.frozen import frozen
from agentcli.core.messages import ATTACHED, Block, ImageBlock, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.text.format import counted
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import plain_line

READ_AGAIN = "[Read again later: see below]"
WRITTEN_WHOLE = "[The file was written whole later: see below]"
CHANGED_AND_READ = "[The file was changed and read again later: see below]"
REPEATED = "[The same call gave the same result later: see below]"
OLD_PICTURE = "[A picture of many turns ago stood here. Look at it again, or ask for it, if it matters.]"
LEFT_OUT_IMAGE = "[An image that the user attached{name} was left out because the context is nearly full. {again}]"
_READ_IMAGE = "Read the file if the image matters."
_ATTACH_IMAGE = "Ask the user to attach it again if it matters."

MIN_FREED = 25
"""Minimum tokens freed by replacing a result with a line."""
_MIN_CHARACTERS = 200
_CHANGES = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_NUMBERED = lazy_pattern(r"(\d{1,9})\t")
_IMAGE_CHIP = lazy_pattern(r"\[Image #\d+: ([^\[\]\n]+)\]$")
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
    line: str


@frozen
class _Picture:
    block: str
    place: int
    shown: Block
    age_counts: str
    """Unit of its age: `prompts` for pictures from the user, `replies` for those from tools."""
    born: int
    name: str = ""
    """Path or name of an image from the user, as the text before it says; empty if unknown."""

    @property
    def is_users(self) -> bool:
        return isinstance(self.shown, ImageBlock)

    @property
    def stand_in(self) -> str:
        if isinstance(self.shown, ToolResultBlock):
            return f"{self.shown.text}\n{OLD_PICTURE}" if self.shown.text.strip() else OLD_PICTURE
        again = _READ_IMAGE if self.name.startswith("/") else _ATTACH_IMAGE
        return LEFT_OUT_IMAGE.format(name=f" ({self.name})" if self.name else "", again=again)


class Snip:
    name = "snip"

    def __init__(self, picture_replies: int = 10, picture_prompts: int = 3) -> None:
        """Pictures from tools stay for `picture_replies`; the user's for `picture_prompts`: work on them takes long."""
        self._oldest_picture = {"replies": picture_replies, "prompts": picture_prompts}
        self._results = ResultReader()
        self._version: int | None = None
        """Version of the edits for which edited results were last dropped."""
        self._forget()

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        self._take_in(self._results.look(shown))
        self._forget_edited(state)
        if not self._superseded and not self._pictures:
            return None
        newest = newest_exchange(shown)
        self._snip(state, newest)
        edits: Sequence[ContextEdit] = self._ready
        total = StepTotal(self._freed, self._first.older.block) if self._first is not None else None
        counts = [(len(edits), "superseded result", "superseded results")]
        names: list[str] = []
        if self._pictures and (pictures := [*self._pictures_left_out(state, newest)]):
            edits, total = (*edits, *(_replaced(one.block, one.shown, one.stand_in) for one in pictures)), None
            names = [one.name or "without a name" for one in pictures if one.is_users]
            counts.append((len(pictures) - len(names), "old picture of a tool", "old pictures of tools"))
        if not edits:
            return None
        parts = [counted(*one) for one in counts if one[0]]
        if names:
            images = counted(len(names), "image that you attached", "images that you attached")
            parts.append(f"{images} ({', '.join(names)}) for lack of space; /context restores them, or attach again")
        return StepPlan(edits, f"left out {' and '.join(parts)}", total=total)

    # ---------------------------------------------------------------------------------------------------- superseding

    def _forget(self) -> None:
        self._readings: dict[str, tuple[_Reading, ...]] = {}
        """Readings that are not superseded, by file."""
        self._changes: dict[str, int] = {}
        self._latest: dict[str, AnsweredCall] = {}
        """Latest call by `same_call` key."""
        self._folder = 0
        """Incremented when a command may have changed the directory, which changes relative paths."""
        self._superseded: list[_Superseded] = []
        self._waiting: list[_Superseded] = []
        """Superseded results of the newest exchange, which stays unchanged."""
        self._forget_ready()
        self._pictures: list[_Picture] = []
        self._count = {"replies": 0, "prompts": 0}

    def _forget_ready(self) -> None:
        self._seen: tuple[int | None, frozenset[str]] | None = None
        """Version of the edits and pins for which the fields below were computed."""
        self._ready: AppendOnly[ContextEdit] = AppendOnly()
        self._freed = 0
        self._first: _Superseded | None = None

    def _forget_edited(self, state: ContextState) -> None:
        """Drop results that were edited, mostly cleared ones: there is nothing left to snip, and what the user restores
        must stay."""
        if state.version == self._version:
            return
        self._version = state.version

        def is_whole(called: AnsweredCall) -> bool:
            return state.edited(called.block) is None

        left = {file: tuple(one for one in known if is_whole(one.called)) for file, known in self._readings.items()}
        self._readings = {file: readings for file, readings in left.items() if readings}
        self._latest = {key: called for key, called in self._latest.items() if is_whole(called)}

    def _take_in(self, fresh: NewResults) -> None:
        if fresh.started_over:
            self._forget()
        known = len(self._superseded)
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
        self._waiting += self._superseded[known:]
        for place, message in fresh.messages:
            self._take_pictures(place, message)

    def _file(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._folder}:{path}"

    def _take_reading(self, file: str, called: AnsweredCall) -> None:
        reading = _read_reading(called, self._changes.get(file, 0))
        kept = [reading]
        for old in self._readings.get(file, ()):
            if _covers(reading, old):
                self._superseded.append(_Superseded(old.called, called, READ_AGAIN))
            elif old.changes < reading.changes and _shows_most_of(reading, old):
                self._superseded.append(_Superseded(old.called, called, CHANGED_AND_READ))
            else:
                kept.append(old)
        self._readings[file] = tuple(kept)

    def _take_change(self, file: str, called: AnsweredCall) -> None:
        self._changes[file] = self._changes.get(file, 0) + 1
        if called.name == "Write":
            for old in self._readings.pop(file, ()):
                self._superseded.append(_Superseded(old.called, called, WRITTEN_WHOLE))

    def _take_repeated(self, called: AnsweredCall) -> None:
        if called.characters < _MIN_CHARACTERS or not called.only_text:
            return
        key = same_call(called.name, called.input)
        old = self._latest.get(key)
        if old is not None and (old.result.is_error, old.result.text) == (called.result.is_error, called.result.text):
            self._superseded.append(_Superseded(old, called, REPEATED))
        self._latest[key] = called

    def _take_pictures(self, place: int, message: Message) -> None:
        self._count["replies"] += message.role == "assistant"
        self._count["prompts"] += message.origin in (Origin.PROMPT, Origin.QUEUED)
        said = ""
        """The text before a block."""
        for number, block in enumerate(message.content):
            name = ""
            if isinstance(block, TextBlock):
                said = block.text
            if isinstance(block, ImageBlock):
                by = "prompts"
                chip = _IMAGE_CHIP.search(said)
                named = chip[1] if chip else str(message.meta.get(ATTACHED, {}).get("path", ""))
                name, said = plain_line(named, 200), ""
            elif isinstance(block, ToolResultBlock) and any(isinstance(part, ImageBlock) for part in block.content):
                by = "replies"
            else:
                continue
            self._pictures.append(_Picture(block_id(message, number), place, block, by, self._count[by], name))

    # ----------------------------------------------------------------------------------------------------------- edits

    def _snip(self, state: ContextState, newest: int) -> None:
        """Extend `_ready`; all results are checked again only after other edits or pins."""
        seen = (state.version, state.pinned)
        if state.version is None or seen != self._seen:
            # Edited blocks are not considered again, even if the user restores them.
            self._superseded = [one for one in self._superseded if state.edited(one.older.block) is None]
            self._forget_ready()
            self._seen, self._waiting = seen, self._superseded[:]
        left: list[_Superseded] = []
        for one in self._waiting:
            if one.older.place >= newest:
                left.append(one)
            elif state.edited(one.newer.block) is None and state.is_free(one.older.block):
                self._add_ready(one)
        self._waiting = left

    def _add_ready(self, one: _Superseded) -> None:
        edit = _replaced(one.older.block, one.older.result, one.line)
        if edit.freed >= MIN_FREED:
            self._ready = self._ready.adding(edit)
            self._freed += edit.freed
            if self._first is None or one.older.place < self._first.older.place:
                self._first = one

    def _pictures_left_out(self, state: ContextState, newest: int) -> Iterator[_Picture]:
        self._pictures = [one for one in self._pictures if state.edited(one.block) is None]
        twice = {one.older.block for one in self._superseded}
        for one in self._pictures:
            old = self._count[one.age_counts] - one.born >= self._oldest_picture[one.age_counts]
            if not old or (one.is_users and state.share < NEARLY_FULL):
                continue
            if one.place < newest and one.block not in twice and state.is_free(one.block):
                yield one


def _replaced(block: str, shown: Block, line: str) -> ContextEdit:
    freed = block_tokens(shown) - block_tokens(TextBlock(line))
    return ContextEdit(kind="replace", target=block, text=line, step=Snip.name, freed=max(0, freed))


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
