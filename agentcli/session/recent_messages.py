"""Resume a long session without reading all of it: read the messages since the last compaction, and the state before.

Requests contain nothing from before the last compaction. Of that earlier part only lines with state are read:
everything but messages, and messages with a meta or with calls from which state is taken (the todos). Those messages
stand for the earlier part at the beginning of the log; `EarlierPart` reads all of it on demand.

The cut is at a prompt, where no message is unfinished, so that both parts together give the messages of the whole file.
A file with lines of another form than the store writes is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from os import SEEK_END
from pathlib import Path
from typing import IO

from agentcli.core.events import USER_AGENT, Event
from agentcli.core.files.bounded_read import open_regular
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, Origin
from agentcli.session.history import HistoryReader, NoHistory, decode_line, recorded_event
from agentcli.session.load import (
    LINE_LIMIT,
    LoadedSession,
    RecordReader,
    load_session,
    no_garbage_collection,
    scan,
)

MIN_EARLIER = 1024 * 1024
"""Least size in bytes of an earlier part that is worth skipping: reading it takes 40 ms."""
BEFORE_COMPACTION = 256 * 1024
"""Bytes before the last compaction that are also read, because their replies calibrate the token estimate."""
SECTION = 4 * 1024 * 1024
"""Least size in bytes of a section of the earlier part; sections are read one at a time."""

Pace = Callable[[Iterator[Json]], Iterator[Json]]

_PIECE = 1024 * 1024
_BOUNDARY = re.compile(rb'\n\{"type":"boundary","uuid":"')
_PROMPT = re.compile(
    rb'\n\{"type":"user","uuid":"(?:(?!,"isSidechain":)[^\n]){1,2000},"isSidechain":false,"origin":"prompt"'
)
_MAX_MATCH_LENGTH = 2_200
_ASSISTANT, _REPLY_END = b'{"type":"assistant","uuid":"', b'{"type":"reply-end","uuid":"'
_USER, _RESULTS_END = b'{"type":"user","uuid":"', b'{"type":"results-end","uuid":"'
_SHOWN = b'{"type":"shown","uuid":"'
_RESULT, _IS_PROMPT = b',"isSidechain":false,"origin":"tool_results"', b',"isSidechain":false,"origin":"prompt"'
_META, _CALL, _IS_CALL = b'"meta":{', b'"name":"', b'"type":"tool_use"'
_EVENTS = (
    b'"event":"ModeChanged"',
    b'"event":"RulesLearned"',
    b'"event":"AgentStarted"',
    b'"event":"AgentMoved"',
    b'"event":"AgentFinished"',
    f'"agent":"{USER_AGENT}"'.encode(),
)


@frozen
class EarlierPart:
    """The part of a session file before the messages that were read completely."""

    path: Path
    cuts: tuple[int, ...]
    """Byte offsets of the beginnings of its sections, and of the end of the last one."""
    stand_ins: int
    """Number of messages at the beginning of the log that stand for it."""
    unread: int
    """Number of its other messages."""
    rights: tuple[Event, ...]
    """Its changes of the permission mode and rules."""
    skipped: int
    """Number of its unreadable lines found without reading all of it."""

    def sections(self, pace: Pace = iter) -> Iterator[LoadedSession]:
        """Read all sections, the last one first. `pace` may slow the reading down. Raises `OSError`."""
        for begin, end in reversed(list(pairwise(self.cuts))):
            reader = RecordReader(LoadedSession(self.path, self.path.stem), HistoryReader())
            yield reader.read(pace(scan(self.path, reader.session, begin, end)))

    def messages(self, pace: Pace = iter) -> list[Message]:
        """All its messages. `pace` as for `sections`. Raises `OSError`."""
        reader = RecordReader(LoadedSession(self.path, self.path.stem), NoHistory())
        with no_garbage_collection():
            return reader.read(pace(scan(self.path, reader.session, 0, self.cuts[-1]))).messages


def load_recent(path: Path, *, with_history: bool = True, state_calls: Sequence[str] = ()) -> LoadedSession:
    """Like `load_session`, but without the earlier part of a long session. `state_calls`: names of tools whose calls
    are also read from there. Raises `OSError`."""
    marks = tuple(f'"name":"{name}"'.encode() for name in state_calls)
    cut = _find_cut(path)
    with no_garbage_collection():
        while cut >= MIN_EARLIER:
            skimmer = _Skimmer(path, marks)
            if skimmer.skim(cut):
                return skimmer.read_rest(with_history) or load_session(path, with_history=with_history)
            cut = skimmer.better_cut
    return load_session(path, with_history=with_history)


def _find_cut(path: Path) -> int:
    """Offset of the last prompt at least `BEFORE_COMPACTION` before the last compaction; 0 if there is none."""
    with open_regular(path) as file:
        boundary = _find_last(file, _BOUNDARY, file.seek(0, SEEK_END))
        return _find_last(file, _PROMPT, boundary - BEFORE_COMPACTION)


def _find_last(file: IO[bytes], pattern: re.Pattern[bytes], end: int) -> int:
    """Offset of the last matching line before `end`; 0 if there is none."""
    while end > MIN_EARLIER:
        begin = max(0, end - _PIECE)
        file.seek(begin)
        found = [match.start() for match in pattern.finditer(file.read(end - begin))]
        if found:
            return begin + found[-1] + 1
        end = begin and begin + _MAX_MATCH_LENGTH
    return 0


class _OtherForm(Exception):
    """A line is not of the form that the store writes."""


class _Skimmer:
    """Reads the lines of an earlier part that have state.

    Lines wait until their messages are complete, with the results of their calls. Then all of them are taken, or only
    those that are not part of a message.
    """

    def __init__(self, path: Path, call_marks: tuple[bytes, ...]) -> None:
        self._path = path
        self._call_marks = call_marks
        self._rights = _RightsHistory()
        self._reader = RecordReader(LoadedSession(path, path.stem), self._rights)
        self._waiting: list[bytes | Json] = []
        self._waiting_state: list[Json] = []
        self._holds_state = self._reply_ended = self._has_calls = False
        self._is_open = False
        """Whether the waiting lines contain a reply, or calls, without an end record."""
        self._dropped = self._ends = 0
        self._running: set[str] = set()
        """Ids of agents and of the user's shell commands that have started and not ended."""
        self._cuts = [0]
        """Offsets of prompts at which nothing runs, so that both sides can be shown separately."""
        self.better_cut = 0
        """Offset of the last such prompt; 0 if the file cannot be cut."""

    def skim(self, cut: int) -> bool:
        """Take the lines before `cut`. Returns False if something runs there; `better_cut` is a cut before that."""
        position = 0
        try:
            with open_regular(self._path, buffering=1 << 20) as file:
                while position < cut:
                    line = file.readline(LINE_LIMIT)
                    if not line or len(line) == LINE_LIMIT:
                        raise _OtherForm
                    self._take(line, position)
                    position += len(line)
            self._flush()
        except _OtherForm:
            self.better_cut = 0
            return False
        if self._running:
            return False
        self._cuts.append(cut)
        return True

    def read_rest(self, with_history: bool) -> LoadedSession | None:
        """Read what follows the cut and return the session; None if requests may need more than that."""
        reader, session = self._reader, self._reader.session
        reader.settle()
        # A usage also counts messages that were not read.
        session.messages = [replace(message, usage=None) if message.usage else message for message in session.messages]
        kept, skipped = len(session.messages), session.skipped
        session.last_reply_at = ""
        reader.use_history(HistoryReader() if with_history else NoHistory())
        reader.read(scan(self._path, session, self._cuts[-1]))
        compacted = any(message.origin is Origin.BOUNDARY for message in session.messages[kept:])
        if not compacted or not session.last_reply_at:
            return None
        rights = tuple(self._rights.events)
        session.earlier = EarlierPart(self._path, tuple(self._cuts), kept, self._dropped, rights, skipped)
        return session

    def _take(self, line: bytes, position: int) -> None:
        if not line.endswith(b"}\n"):
            self._take_other(line)
        elif line.startswith(_ASSISTANT):
            if self._reply_ended:
                self._flush()
            self._is_open = True
            self._wait(line, _CALL)
        elif line.startswith(_REPLY_END):
            self._reply_ended = True
            self._is_open = self._has_calls
            self._ends += 1
            self._wait(line, _META)
        elif line.startswith(_USER) and _RESULT in line:
            self._waiting.append(line)
        elif line.startswith(_USER):
            self._take_message(line, position)
        elif line.startswith(_RESULTS_END):
            self._is_open = False
            self._ends += 1
            self._wait(line, _META)
        elif not line.startswith(_SHOWN) or any(mark in line for mark in _EVENTS):
            self._take_other(line)

    def _take_message(self, line: bytes, position: int) -> None:
        """Take a whole message such as a prompt or an attachment; all messages before it are complete."""
        self._flush()
        if not self._running and _IS_PROMPT in line:
            self.better_cut = position
            if position - self._cuts[-1] >= SECTION:
                self._cuts.append(position)
        self._ends += 1
        self._wait(line, _META)

    def _take_other(self, line: bytes) -> None:
        record = decode_line(line)
        kind = record.get("type") if record is not None else None
        if record is None:
            self._reader.session.skipped += bool(line.strip())
            return
        if kind in ("user", "assistant", "reply-end", "results-end"):
            raise _OtherForm
        if kind in ("resume", "gap"):
            self._flush()
            self._running.clear()
        elif kind == "shown" and isinstance(event := record.get("event"), dict):
            self._note_running(event)
        self._holds_state |= kind in ("boundary", "error", "tombstone")
        self._waiting.append(record)
        self._waiting_state.append(record)

    def _note_running(self, event: Json) -> None:
        by_user = event.get("agent") == USER_AGENT
        match event.get("event"):
            case "AgentStarted":
                self._running.add(str(event.get("agent")))
            case "AgentFinished":
                self._running.discard(str(event.get("agent")))
            case "ToolStarted" if by_user:
                self._running.add(str(event.get("tool_use_id")))
            case "ToolFinished" if by_user:
                self._running.discard(str(event.get("tool_use_id")))

    def _wait(self, line: bytes, mark: bytes) -> None:
        self._waiting.append(line)
        if mark not in line:
            return
        if mark is _CALL:
            self._has_calls |= _IS_CALL in line
            self._holds_state |= any(call in line for call in self._call_marks)
        else:
            self._holds_state = True

    def _flush(self) -> None:
        # Unfinished messages have to be read, because the reader completes them.
        is_read = self._holds_state or self._is_open
        taken = self._waiting if is_read else self._waiting_state
        for line in taken:
            record = decode_line(line) if isinstance(line, bytes) else line
            if record is None:
                raise _OtherForm
            self._reader.take(record)
        self._dropped += 0 if is_read else self._ends
        self._waiting, self._waiting_state = [], []
        self._holds_state = self._reply_ended = self._has_calls = self._is_open = False
        self._ends = 0


class _RightsHistory(NoHistory):
    """Collects only changes of the permission mode and rules."""

    def add_shown(self, record: Json) -> None:
        event = recorded_event(record["event"], {})
        if event is not None and event.policy.scope == "session":
            self.events.append(event)
