"""The lines of a session as a tape: each line that the replay writes is compared with the recorded one at the cursor.

Lines that the loop does not write itself (titles, notices of other parts, sub-agents, the user's settings) are inputs:
when the cursor reaches one, it is applied to the replayed session. Ids differ between the two and are paired.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import COPY_OF, Block, Json, Origin, block_from_dict
from agentcli.core.text.secret_text import redact_values, without_secrets
from agentcli.session.base import decode_line

_COMPARED_TYPES = frozenset(
    (
        *("user", "assistant", "reply-end", "results-end", "boundary", "error", "tombstone", "event", "shown"),
        *("submission-end", "input"),
    )
)
_NOT_OF_LOOP = ("settings", "call-stop")
"""Kinds of `input` that are written outside of the loop, as are the permissions of a call."""
_LOOP_SHOWN = frozenset(
    (
        *("ToolStarted", "PrefixBroken", "CompactionStarted", "CompactionFailed", "LoopSuspected", "RetryScheduled"),
        *("ModelFellBack", "FeatureDropped", "SubmissionInterrupted"),
    )
)
_LOOP_STATE = frozenset(("UsageReported", "RequestRepaired", "ContextEdited", "DirectoryChanged"))
_LOOP_NOTICES = frozenset(("cache", "compact", "advisor", "budget"))
_LOOP_STEPS = frozenset(("budget", "snip", "microcompact", "collapse"))
_NOT_COMPARED = frozenset(("sessionId", "timestamp", "cwd", "version", "isSidechain", "durationMs", "cutOff"))
_NOT_COMPARED_IN_EVENTS = frozenset(
    (
        *("duration_ms", "first_ms", "pauses", "waited_ms", "api_duration_ms", "uuid", "session_id"),
        *("permission_denials", "background_tasks"),
    )
)
MAX_SHOWN = 300
"""Characters shown of a value that differs."""
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OF_CLOCK = re.compile(
    r"\(idle [^)]*\)|agentcli was updated from \S+ to \S+|it has changed since the session was closed"
)
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode
_encode_as_is = json.JSONEncoder(ensure_ascii=False, default=str).encode


@frozen
class ReplayDifference:
    """The first place at which the replay differs from the record."""

    line: int
    """Number of the recorded line, from 1; one more than there are if the replay went on."""
    prompt: int
    prompt_text: str
    request: int
    """Number of the last request before it, or of the request that differs, from 1; 0: there was none."""
    text: str
    recorded: Json | None = None
    now: Json | None = None
    field: str = ""
    """Path of the first field that differs."""

    def to_dict(self) -> Json:
        names = ("line", "prompt", "prompt_text", "request", "text", "field", "recorded", "now")
        return {name: getattr(self, name) for name in names}


@slotted
class Counts:
    events: int = 0
    """Lines that the replay wrote exactly as recorded."""
    requests: int = 0
    """Requests whose digest is the recorded one; a reply that broke off and was requested again counts twice."""
    unproven: set[int] = field(default_factory=set)
    """Requests of which nothing is recorded: they were stopped before the server reported anything."""
    other_front: dict[str, set[int]] = field(default_factory=dict)
    """What differs in front of the messages because it has changed since, with the numbers of the requests."""
    inputs: int = 0
    """Lines that were applied as recorded."""
    apart: dict[str, int] = field(default_factory=dict)
    """Lines of the loop that cannot be verified, by the reason."""

    def set_apart(self, reason: str, lines: int = 1) -> None:
        self.apart[reason] = self.apart.get(reason, 0) + lines


class Tape:
    def __init__(self, records: Sequence[Json]) -> None:
        self.records = records
        self.cursor = 0
        self.end = 0
        """Index behind the last line of the present process."""
        self.counts = Counts()
        self.difference: ReplayDifference | None = None
        self.changed = asyncio.Event()
        """Set when a line was written, or something waits for its input."""
        self.apply: Callable[[Json], None] = lambda _record: None
        """Applies an input to the replayed session."""
        self.advanced: Callable[[], None] = lambda: None
        self.last_type = ""
        """Type of the last line that was compared."""
        self.request_number = 0
        self.prompt_number = 0
        self.prompt_text = ""
        self.now = 0.0
        self._is_applying = False
        self._ids: dict[str, str] = {}
        """Recorded ids by those of the replay."""
        self._own_ids: dict[str, str] = {}

    def open(self, begin: int, end: int) -> None:
        """Go to the lines of another process. It reads the recorded ids, so nothing is paired yet."""
        self.cursor, self.end = begin, end
        self._ids.clear()
        self._own_ids.clear()

    # ------------------------------------------------------------------------------------------------------ reading

    @property
    def at_end(self) -> bool:
        return self.cursor >= self.end

    def ahead(self, start: int | None = None) -> Iterator[tuple[int, Json]]:
        """Lines from the cursor to the end of the process, without inputs, with their indices."""
        for index in range(self.cursor if start is None else start, self.end):
            if not self.is_input(index):
                yield index, self.records[index]

    def peek(self) -> Json:
        """The next line that the loop writes; empty at the end."""
        return next((record for _index, record in self.ahead()), {})

    def is_input(self, index: int) -> bool:
        return not is_of_loop(self.records[index])

    def translate(self, record: Json) -> Json:
        """A recorded line with the ids of the replay."""
        # The order of keys is part of requests.
        text = _encode_as_is(record)
        made: Json = json.loads(_ID.sub(lambda match: self._own_ids.get(match[0], match[0]), text))
        return made

    def set_time(self, index: int) -> None:
        """Move the clock to the time of a line. It never runs backwards."""
        if index < len(self.records):
            self.now = max(self.now, read_time(self.records[index]))

    # ------------------------------------------------------------------------------------------------------ writing

    def take(self, written: bytes) -> None:
        """Compare lines that the replay writes."""
        for line in written.split(b"\n"):
            record = decode_line(line) if line else None
            if record is None:
                continue
            if self._is_applying:
                self._pair(_encode(self.records[self.cursor]), _encode(record))
            elif is_of_loop(record) and self.difference is None and not self.at_end:
                self._compare(record)

    def _compare(self, now: Json) -> None:
        recorded = self.records[self.cursor]
        before, after = comparable(recorded), comparable(now)
        # What was recorded for the replay has no secrets, and the conversation may have some.
        if not self._same(before, after) and not self._same(redact_values(before), redact_values(after)):
            path, was, is_ = find_difference(before, after)
            shown = f"recorded {path}: {describe(was)}\nnow {path}: {describe(is_)}"
            if path.endswith("request") and isinstance(was, str) and isinstance(is_, str):
                shown = f"{_describe_request(was, is_)}\n{shown}"
            self.differ(without_secrets(shown), redact_values(recorded), redact_values(now), path)
            return
        self.last_type = str(recorded["type"])
        self.counts.events += 1
        self.counts.requests += ends_request(self.records, self.cursor)
        self.advance()

    def _same(self, recorded: Json, now: Json) -> bool:
        before, after = _encode(recorded), _encode(now)
        if _ID.sub("*", _OF_CLOCK.sub("*", before)) != _ID.sub("*", _OF_CLOCK.sub("*", after)):
            return False
        return self._pair(before, after)

    def _pair(self, before: str, after: str) -> bool:
        """Pair the ids of two lines; false if one of them belongs to another one already."""
        for one, other in zip(_ID.findall(before), _ID.findall(after), strict=False):
            if one != other and not self._is_applying and self._ids.setdefault(other, one) != one:
                return False
            self._own_ids.setdefault(one, other)
        return True

    def advance(self) -> None:
        self.set_time(self.cursor)
        self.cursor += 1
        self.apply_inputs()
        self.advanced()
        self.changed.set()

    def apply_inputs(self) -> None:
        """Apply the inputs at the cursor."""
        while not self.at_end and self.is_input(self.cursor) and not self._is_applying:
            self.apply_input()

    def apply_input(self) -> None:
        self._is_applying = True
        self.set_time(self.cursor)
        try:
            self.apply(self.translate(self.records[self.cursor]))
        finally:
            self._is_applying = False
        self.counts.inputs += 1
        self.cursor += 1

    def note_other_front(self, what: str) -> None:
        self.counts.other_front.setdefault(what, set()).add(self.request_number)

    def differ(self, text: str, recorded: Json | None = None, now: Json | None = None, path: str = "") -> None:
        if self.difference is None:
            place = (self.cursor + 1, self.prompt_number, self.prompt_text, self.request_number)
            self.difference = ReplayDifference(*place, text, recorded, now, path)
        self.changed.set()


# -------------------------------------------------------------------------------------------------------------- lines


def read_time(record: Json) -> float:
    try:
        return datetime.fromisoformat(str(record["timestamp"])).timestamp()
    except (KeyError, ValueError):
        return 0.0


def event_of(record: Json, name: str = "") -> Json:
    """The event of a line; empty if it has none, or not this one."""
    event = record.get("event") if record.get("type") in ("event", "shown", "submission-end") else None
    return event if isinstance(event, dict) and name in ("", event.get("event")) else {}


def usage_of(record: Json, *purposes: str) -> Json:
    """The usage of a request of the main conversation for one of these purposes; empty for any other line."""
    event = event_of(record, "UsageReported")
    return event if not event.get("agent") and event.get("purpose", "turn") in purposes else {}


def input_of(record: Json, *kinds: str) -> Json:
    return record if record.get("type") == "input" and record.get("kind") in kinds else {}


def is_settings(record: Json) -> bool:
    return bool(input_of(record, "settings"))


def is_abort(record: Json) -> bool:
    """Whether a submission was stopped here."""
    return bool(event_of(record, "SubmissionInterrupted") or input_of(record, "abort"))


def origin_of(record: Json) -> str:
    return str(record.get("origin", "")) if record.get("type") == "user" else ""


def block_of(record: Json) -> Block:
    return block_from_dict(record["message"]["content"][0])


def is_copy(record: Json) -> bool:
    return COPY_OF in (record.get("message") or {}).get("meta", {})


def is_prompt(record: Json) -> bool:
    return origin_of(record) == Origin.PROMPT and not is_copy(record)


def digest_of(record: Json) -> str:
    """The digest of the request that a line reports on; "" if it has none."""
    found = usage_of(record, "turn") or input_of(record, "finished", "broken", "failed")
    return str(found.get("request", ""))


def ends_request(records: Sequence[Json], index: int) -> bool:
    """Whether a line is the first one with the digest of a request; the second one follows it."""
    digest = digest_of(records[index])
    return bool(digest) and (not index or digest_of(records[index - 1]) != digest)


def is_of_loop(record: Json) -> bool:
    """Whether the replayed loop writes this line."""
    kind = record.get("type")
    if kind not in _COMPARED_TYPES or record.get("isSidechain") is True or input_of(record, *_NOT_OF_LOOP):
        return False
    event = event_of(record)
    name = event.get("event")
    if kind == "shown":
        if name == "PrefixBroken" and str(event.get("block")).startswith("the tool"):
            return False  # Which tools are offered is decided outside of the loop.
        is_notice = name == "NoticeRaised" and event.get("code") in _LOOP_NOTICES
        return not event.get("agent") and (name in _LOOP_SHOWN or is_notice)
    if kind != "event":
        return True
    if event.get("agent") or name not in _LOOP_STATE:
        return False
    if name == "UsageReported":
        return bool(usage_of(record, "turn", "compact"))
    if name == "RequestRepaired":
        return event.get("repair") != "leave_out_unchecked"
    return name != "ContextEdited" or event.get("step") in _LOOP_STEPS


def comparable(record: Json) -> Json:
    """A line without what differs between two runs, such as times."""
    kept = {name: value for name, value in record.items() if name not in _NOT_COMPARED}
    if isinstance(event := kept.get("event"), dict):
        kept["event"] = {name: value for name, value in event.items() if name not in _NOT_COMPARED_IN_EVENTS}
    return kept


def find_difference(before: Any, after: Any, path: str = "") -> tuple[str, Any, Any]:
    """The path of the first field in which two values differ, and both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys(("type", *before, *after)):
            if not _alike(before.get(name), after.get(name)):
                return find_difference(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            if not _alike(one, other):
                return find_difference(one, other, f"{path}[{place}]")
    return path or "an id", before, after


def _describe_request(was: str, now: str) -> str:
    (front, _dash, messages), (front_now, _, messages_now) = was.partition("-"), now.partition("-")
    parts = [("the model, its parameters, the tools or the system prompt", front != front_now)]
    parts.append(("the messages", messages != messages_now))
    return f"The request differs in {' and in '.join(name for name, differs in parts if differs)}."


def _alike(one: Any, other: Any) -> bool:
    return _ID.sub("*", _encode(one)) == _ID.sub("*", _encode(other))


def describe(value: Any) -> str:
    text = value if isinstance(value, str) else _encode(value) if value is not None else "nothing"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
