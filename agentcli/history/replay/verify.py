"""Verify a session: replay it process by process, and compare every line and every request with the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.history.replay.process import Process, ProcessBuilder, ReplayChanges
from agentcli.history.replay.tape import (
    Counts,
    ReplayDifference,
    Tape,
    ends_request,
    event_of,
    input_of,
    is_of_loop,
    is_settings,
    usage_of,
)
from agentcli.providers.base import Request
from agentcli.session.base import NoHistory
from agentcli.session.load import LoadedSession, RecordReader, read_records

_OPENING = frozenset(("resume", "rewind", "branch-name", "user-context", "system-context"))
_STOPS: Sequence[tuple[Callable[[Json], object], str]] = (
    (lambda one: one.get("added"), "added as a whole by /what-if or /tree, or recorded after that"),
    (lambda one: one.get("type") == "gap", "recorded after lines of the session were lost"),
    (lambda one: input_of(one, "budget"), "recorded after the budget was changed"),
    (lambda one: event_of(one, "CompactionFailed"), "recorded after a compaction failed"),
)
"""The lines from which on a process is not verified, and why."""


@frozen
class Verification:
    counts: Counts
    difference: ReplayDifference | None
    events: int
    """Lines that the loop wrote and that can be verified."""
    requests: int
    sent: Request | None = None
    """The request of the replay that differs; None if none does."""

    @property
    def exit_code(self) -> int:
        return 0 if self.difference is None and self.counts.events == self.events > 0 else 1

    def to_dict(self) -> Json:
        counts = self.counts
        return {
            "identical": self.exit_code == 0,
            "events": {"identical": counts.events, "of": self.events},
            "requests": {"identical": counts.requests, "of": self.requests},
            "other_front": {what: len(numbers) for what, numbers in counts.other_front.items()},
            "not_recorded": len(counts.unproven),
            "inputs": counts.inputs,
            "not_verified": counts.apart,
            "difference": self.difference.to_dict() if self.difference is not None else None,
        }


def read_session(path: Path) -> list[Json]:
    """The lines of a session. Blocking. Raises `AgentError` if there is nothing to replay."""
    try:
        records = [record for record in read_records(path) if isinstance(record.get("type"), str)]
    except OSError as error:
        raise AgentError(f"The session cannot be read: {error.strerror}.") from error
    if not any(record.get("type") == "user" for record in records):
        raise AgentError("This session has no prompt to replay.")
    if any(record.get("parentSession") for record in records[:2]):
        raise AgentError("This is the transcript of a sub-agent. Replay the session that started it.")
    return records


async def verify(
    records: Sequence[Json],
    changes: ReplayChanges | None = None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
    check: Callable[[Request], str] | None = None,
) -> Verification:
    """Replay the whole session. `check` gets each request of the loop before it is answered, and returns why the
    replay ends there, or "". Raises `AgentError` for lines that are damaged."""
    tape = Tape(records)
    try:
        return await _verify(tape, changes or ReplayChanges(), progress, check)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError) as error:
        text = f"Line {tape.cursor + 1} of the session cannot be replayed: {type(error).__name__}: {error}."
        raise AgentError(text) from error


async def _verify(
    tape: Tape,
    changes: ReplayChanges,
    progress: Callable[[int, int], None],
    check: Callable[[Request], str] | None,
) -> Verification:
    records = tape.records
    reader = RecordReader(LoadedSession(Path("/replay.jsonl"), "replay"), NoHistory())
    mode: ev.ModeChanged | None = None
    last = None
    segments = list(_segments(records))
    for begin, end, reason in segments:
        if reason and (lines := sum(map(is_of_loop, records[begin:end]))):
            tape.counts.set_apart(reason, lines)
    for begin, end, reason in segments:
        if tape.difference is not None:
            break
        opening = [] if reason else _list_opening(records, begin, end)
        for index in opening:
            reader.take(records[index])
        if not reason:
            tape.open(begin, end)
            builder = ProcessBuilder(tape, reader.session, mode, changes)
            last = await _run(Process(builder.build(), builder), progress, check)
        for index in sorted({*range(begin, end)} - {*opening}):
            reader.take(records[index])
        mode = next((one for record in reversed(records[begin:end]) if (one := _mode_of(record))), mode)
    events = sum(map(is_of_loop, records)) - sum(tape.counts.apart.values())
    known = [range(begin, end) for begin, end, reason in segments if not reason]
    requests = sum(ends_request(records, index) for lines in known for index in lines)
    first = tape.difference
    is_request = first is not None and first.field.endswith("request")
    return Verification(tape.counts, first, events, requests, last if is_request else None)


async def _run(
    process: Process, progress: Callable[[int, int], None], check: Callable[[Request], str] | None
) -> Request | None:
    """Run a process to its end; returns its last request."""
    if check is not None:
        process.model.check = check
    try:
        await process.run(progress)
    finally:
        await process.engine.aclose()
    return process.model.last


def _list_opening(records: Sequence[Json], begin: int, end: int) -> list[int]:
    """The lines with which a process begins, up to its first request: where it goes on, and its contexts."""
    asked = next((index for index in range(begin, end) if usage_of(records[index], "turn")), end)
    return [index for index in range(begin, asked) if records[index].get("type") in _OPENING]


def _mode_of(record: Json) -> ev.ModeChanged | None:
    event = event_of(record, "ModeChanged")
    return ev.ModeChanged(mode=event["mode"], returns_to=event.get("returns_to", ""), reason="") if event else None


def _segments(records: Sequence[Json]) -> Iterator[tuple[int, int, str]]:
    """Begin and end of the lines of each process, and why they cannot be verified; "" if they can. A process of which
    only the beginning can has two segments."""
    begins = [0, *(index for index, one in enumerate(records) if index and one.get("type") == "resume")]
    for begin, end in zip(begins, [*begins[1:], len(records)], strict=True):
        stop, reason = _find_stop(records, begin, end)
        version = next((str(one["version"]) for one in records[begin:end] if one.get("version")), "?")
        old = f"recorded by agentcli {version} without what a replay needs"
        yield begin, stop, "" if any(map(is_settings, records[begin:stop])) else old
        if stop < end:
            yield stop, end, reason


def _find_stop(records: Sequence[Json], begin: int, end: int) -> tuple[int, str]:
    """The first line of a process after which nothing can be verified, and the reason; its end if there is none."""
    settings = 0
    for index in range(begin, end):
        settings += is_settings(records[index])
        if settings > 1:
            return index, "recorded after the settings were changed"
        if reason := next((reason for stops, reason in _STOPS if stops(records[index])), ""):
            return index, reason
    return end, ""


def describe(found: Verification) -> list[str]:
    """The result as lines. Texts of the session are not made safe."""
    counts, lines = found.counts, []
    lines.append(f"Events: {counts.events:,} of {found.events:,} identical")
    lines.append(f"Requests: {counts.requests:,} of {found.requests:,} identical")
    for what, numbers in counts.other_front.items():
        lines.append(f"  compared without {what}: {counted(len(numbers), 'request')}")
    if counts.other_front:
        lines.append("  These texts have changed since, or are not recorded.")
    if counts.unproven:
        lines.append(f"  not recorded, because they were stopped early: {counted(len(counts.unproven), 'request')}")
    if counts.inputs:
        lines.append(f"Inputs, applied as recorded: {counted(counts.inputs, 'line')}")
    for reason, number in counts.apart.items():
        lines.append(f"Not verified: {counted(number, 'line')} {reason}")
    if (first := found.difference) is not None:
        lines += ["", f"First difference, at line {first.line}, {_place(first)}:"]
        lines += [f"  {line}" for line in first.text.splitlines()]
    elif not counts.events:
        lines.append("Nothing could be verified.")
    return lines


def _place(first: ReplayDifference) -> str:
    words = " ".join(first.prompt_text.split())
    quoted = f" (“{words[:60]}{'…' if len(words) > 60 else ''}”)" if words else ""
    return f"prompt {first.prompt}{quoted}, request {first.request}"
