"""Resume a long session without reading all of it: read the messages since the last compaction, and the state before.

Requests contain nothing from before the last compaction. Of that earlier part only lines with state are read:
everything but messages, and messages with a meta or with calls from which state is taken (the todos). Those messages
stand for the earlier part at the beginning of the log; `EarlierPart` reads all of it on demand.

The cut is at a prompt, where no message is unfinished, so that both parts together give the messages of the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from os import SEEK_END
from pathlib import Path

from agentcli.core.events import EVENT_TYPES, USER_AGENT, Event
from agentcli.core.files.access import open_regular
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, Origin
from agentcli.session.base import HistoryReader, NoHistory, restore_event
from agentcli.session.load import (
    LoadedSession,
    RecordReader,
    load_session,
    no_garbage_collection,
    scan,
    scan_places,
)

MIN_EARLIER = 1024 * 1024
"""Least size in bytes of an earlier part that is worth skipping: reading it takes 40 ms."""
BEFORE_COMPACTION = 256 * 1024
"""Bytes before the last compaction that are also read, because their replies calibrate the token estimate."""
SECTION = 4 * 1024 * 1024
"""Least size in bytes of a section of the earlier part; sections are read one at a time."""
_MAX_WAITING = 4 * SECTION
"""Maximum bytes after a cut to hold while something runs; what follows the cut is then read as a whole."""

Pace = Callable[[Iterator[Json]], Iterator[Json]]

_PIECE = 1024 * 1024
_BOUNDARY = re.compile(rb'\n\{"type":"boundary","uuid":"')
_MAX_MATCH_LENGTH = 40
_LOCAL = ("boundary", "error", "tombstone")
_OF_A_MESSAGE = ("user", "assistant", "reply-end", "results-end", "call", "shown")


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
    with no_garbage_collection():
        loaded = _EarlierReader(path, frozenset(state_calls)).read_session(with_history)
    return loaded or load_session(path, with_history=with_history)


def _find_boundary(path: Path) -> int:
    """Offset of the last compaction; 0 if there is none after `MIN_EARLIER`."""
    with open_regular(path) as file:
        end = file.seek(0, SEEK_END)
        while end > MIN_EARLIER:
            begin = max(0, end - _PIECE)
            file.seek(begin)
            if found := [match.start() for match in _BOUNDARY.finditer(file.read(end - begin))]:
                return begin + found[-1] + 1
            end = begin and begin + _MAX_MATCH_LENGTH
    return 0


class _EarlierReader:
    """Reads the lines of an earlier part that have state.

    Lines wait until a prompt at which nothing runs: there the file can be cut, so that both sides can be shown
    separately. Then those with state are taken.
    """

    def __init__(self, path: Path, state_calls: frozenset[str]) -> None:
        self._path = path
        self._state_calls = state_calls
        self._rights = _RightsHistory()
        self._reader = RecordReader(LoadedSession(path, path.stem), self._rights)
        self._waiting: list[Json] = []
        self._running: set[str] = set()
        """Ids of agents and of the user's shell commands that have started and not ended."""
        self._unread = self._skipped = 0
        self._cut = 0
        """Offset of the last prompt at which nothing runs."""
        self._cuts = [0]
        """Offsets of the beginnings of sections."""

    def read_session(self, with_history: bool) -> LoadedSession | None:
        """The session without its earlier part; None if that is not worth it, or requests may need more."""
        end = _find_boundary(self._path) - BEFORE_COMPACTION
        return self.read_rest(with_history) if self.read(end) else None

    def read(self, end: int) -> bool:
        """Take the lines before the last possible cut before `end`. Returns False if the part is not worth skipping."""
        session = self._reader.session
        if end < MIN_EARLIER:
            return False
        for position, record in scan_places(self._path, session, 0, end):
            if record.get("type") == "rewind":
                return False
            if record.get("type") == "user" and record.get("origin") == Origin.PROMPT and not self._running:
                self._take_waiting()
                self._cut, self._skipped = position, session.skipped
                if position - self._cuts[-1] >= SECTION:
                    self._cuts.append(position)
            if position - self._cut > _MAX_WAITING:
                break
            self._note_running(record)
            self._waiting.append(record)
        return self._cut >= MIN_EARLIER

    def read_rest(self, with_history: bool) -> LoadedSession | None:
        """Read what follows the cut and return the session; None if requests may need more than that."""
        reader, session = self._reader, self._reader.session
        reader.settle()
        # A usage also counts messages that were not read.
        session.messages = [replace(message, usage=None) if message.usage else message for message in session.messages]
        kept, session.skipped, session.last_reply_at = len(session.messages), self._skipped, ""
        reader.use_history(HistoryReader() if with_history else NoHistory())
        reader.read(scan(self._path, session, self._cut))
        compacted = any(message.origin is Origin.BOUNDARY for message in session.messages[kept:])
        if not compacted or not session.last_reply_at or reader.branches.unknown:
            return None
        cuts = tuple(dict.fromkeys((*self._cuts, self._cut)))
        session.earlier = EarlierPart(self._path, cuts, kept, self._unread, tuple(self._rights.events), self._skipped)
        return session

    def _note_running(self, record: Json) -> None:
        if record.get("type") in ("resume", "gap"):
            self._running.clear()
        event = record.get("event")
        if record.get("type") != "shown" or not isinstance(event, dict):
            return
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

    def _take_waiting(self) -> None:
        for group in _groups(self._waiting):
            holds_state = self._holds_state(group)
            self._unread += 0 if holds_state else sum(map(_ends_message, group))
            for record in group:
                if holds_state or record.get("type") not in _OF_A_MESSAGE or record.get("type") == "shown":
                    self._reader.take(record)
        self._waiting = []

    def _holds_state(self, group: Sequence[Json]) -> bool:
        """Whether messages have to be read: for their state, or because the reader must complete them."""
        reply_is_open = calls_are_open = False
        try:
            for record in group:
                kind, message = record.get("type"), record.get("message", {})
                if kind == "user":
                    record["origin"]  # without it the line is from another program
                if kind in _LOCAL or (_ends_message(record) and message.get("meta")):
                    return True
                if kind == "assistant" and not _ends_message(record):
                    reply_is_open = True
                    [block] = message["content"]
                    is_call = block["type"] == "tool_use"
                    calls_are_open = calls_are_open or is_call
                    if is_call and block["name"] in self._state_calls:
                        return True
                reply_is_open = reply_is_open and kind != "reply-end"
                calls_are_open = calls_are_open and kind != "results-end"
        except (KeyError, TypeError, ValueError, AttributeError):
            # The reader counts it.
            return True
        return reply_is_open or calls_are_open


def _groups(records: Sequence[Json]) -> Iterator[list[Json]]:
    """Divide records: a whole message, or a reply with the results of its calls, and what follows until the next."""
    group: list[Json] = []
    replied = False
    for record in records:
        kind = record.get("type")
        is_whole = kind in ("user", "assistant") and _ends_message(record)
        if is_whole or kind in ("resume", "gap") or (kind == "assistant" and replied):
            yield group
            group, replied = [], False
        group.append(record)
        replied = replied or kind == "reply-end"
    yield group


def _ends_message(record: Json) -> bool:
    kind = record.get("type")
    if kind == "user":
        return record.get("origin") != Origin.TOOL_RESULTS
    return kind in ("reply-end", "results-end") or (kind == "assistant" and record.get("origin", "reply") != "reply")


class _RightsHistory(NoHistory):
    """Collects only changes of the permission mode and rules."""

    def add_shown(self, record: Json) -> None:
        kind = EVENT_TYPES.get(record["event"].get("event"))
        if kind is not None and kind.policy.scope == "session" and (event := restore_event(record["event"], {})):
            self.events.append(event)
