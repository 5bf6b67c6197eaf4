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
)
from agentcli.providers.base import FailureKind, Request
from agentcli.session.base import NoHistory
from agentcli.session.load import LoadedSession, RecordReader, read_records

_AT_START = ("resume", "rewind", "branch-name")
_OLD_KINDS = frozenset(kind.value for kind in FailureKind)


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
    taken, last = 0, None
    for begin, end in _processes(records):
        if tape.difference is not None:
            break
        tape.open(begin, end)
        reason = _why_not(records[begin:end])
        if reason:
            if lines := sum(map(is_of_loop, records[begin:end])):
                tape.counts.set_apart(reason, lines)
        else:
            while taken < end and (taken < begin or records[taken].get("type") in _AT_START):
                reader.take(records[taken])
                taken += 1
            builder = ProcessBuilder(tape, reader.session, mode, changes)
            last = await _run(Process(builder.build(), builder), progress, check)
        for record in records[taken:end]:
            reader.take(record)
        taken = max(taken, end)
        mode = next((one for record in reversed(records[begin:end]) if (one := _mode_of(record))), mode)
    events = sum(map(is_of_loop, records)) - sum(tape.counts.apart.values())
    first = tape.difference
    is_request = first is not None and first.field.endswith("request")
    return Verification(tape.counts, first, events, _count_requests(records), last if is_request else None)


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


def _mode_of(record: Json) -> ev.ModeChanged | None:
    event = event_of(record, "ModeChanged")
    return ev.ModeChanged(mode=event["mode"], returns_to=event.get("returns_to", ""), reason="") if event else None


def _processes(records: Sequence[Json]) -> Iterator[tuple[int, int]]:
    """Begin and end of the lines of each process, and of each branch that was added as a whole."""
    begins = [0, *(index for index, one in enumerate(records) if index and _begins(one))]
    yield from zip(begins, [*begins[1:], len(records)], strict=True)


def _begins(record: Json) -> bool:
    return record.get("type") == "resume" or bool(record.get("added"))


def _why_not(records: Sequence[Json]) -> str:
    """Why the lines of a process cannot be verified; "" if they can."""
    if records[0].get("added"):
        return "added to the session by a what-if or a summary, or later in that process"
    if any(record.get("type") == "gap" for record in records):
        return "records of this process were lost"
    version = next((str(record["version"]) for record in records if record.get("version")), "?")
    old = f"recorded by agentcli {version}, without what a replay needs"
    if not any(map(is_settings, records)):
        return old
    return old if any(input_of(record, *_OLD_KINDS) for record in records) else ""


def _count_requests(records: Sequence[Json]) -> int:
    """Requests that can be verified."""
    processes = [(begin, end) for begin, end in _processes(records) if not _why_not(records[begin:end])]
    return sum(ends_request(records, index) for begin, end in processes for index in range(begin, end))


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
        lines.append(f"Not verified: {counted(number, 'line')}, {reason}")
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
