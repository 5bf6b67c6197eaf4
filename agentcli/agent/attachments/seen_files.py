"""Save what the model has seen of files with the conversation, and load it again.

A line of the session file has the changes since the previous one; a message that reports changed files has in its meta
what the model knows from it, because the process may end before the next line. Contents are not saved: the log has them
if a file was written whole; otherwise a change is reported without a diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message
from agentcli.tools.base import ToolContext
from agentcli.tools.builtin import absolute_path
from agentcli.tools.files.read_cache import ReadCache, digest_of

SEEN = "seen"
"""Meta key of a message that reports changed files: what the model knows from it, as made by `to_json`."""
MAX_RECALLED = 2_000
Stamp = tuple[int, ...] | None
Remember = Callable[[Json], None]
"""Saves changes by path; None for a forgotten file."""


@frozen
class Record:
    """What is known about one file."""

    digest: str
    whole: bool
    stamp: Stamp = None
    """The file's stamp when it had that digest; while it is the same, the file need not be read."""
    told: str = ""
    """The digest reported to the model without the content."""


def to_json(record: Record) -> Json:
    data: Json = {"digest": record.digest, "whole": record.whole}
    if record.stamp is not None:
        data["stamp"] = list(record.stamp)
    if record.told:
        data["told"] = record.told
    return data


def from_json(data: object) -> Record | None:
    if not isinstance(data, Mapping) or not isinstance(data.get("digest"), str):
        return None
    given = data.get("stamp")
    stamp = tuple(given) if isinstance(given, list) and all(isinstance(number, int) for number in given) else None
    return Record(data["digest"], data.get("whole") is True, stamp, str(data.get("told") or ""))


def recalled(log: Sequence[Message], lines: Iterable[tuple[str, Json]]) -> dict[str, Record]:
    """All saved records, the latest last. `lines`: as passed to `Remember`, each with the id of the last message before
    it."""
    by_message: dict[str, list[Json]] = {}
    for after, files in lines:
        by_message.setdefault(after, []).append(files)
    found: dict[str, Record] = {}
    _take(found, by_message.pop("", ()))
    for message in log:
        if SEEN in message.meta and not message.is_copy:
            _take(found, (message.meta[SEEN],))
        _take(found, by_message.pop(message.id, ()))
    return dict(list(found.items())[-MAX_RECALLED:])


def _take(found: dict[str, Record], lines: Iterable[object]) -> None:
    for files in lines:
        for path, data in files.items() if isinstance(files, Mapping) else ():
            found.pop(path, None)
            record = from_json(data)
            if record is not None:
                found[path] = record


def recall(cache: ReadCache, records: Mapping[str, Record], log: Sequence[Message], context: ToolContext) -> None:
    """Load records into the cache, with the content if the log has it."""
    written = _written(log, context)
    for path, record in records.items():
        data = written.get(path)
        known = data if data is not None and digest_of(data) == record.digest else None
        cache.note_digest(path, record.digest, record.whole, known)


def _written(log: Sequence[Message], context: ToolContext) -> dict[str, bytes]:
    """The last contents that Write calls put into files. Compare digests to see whether they are current."""
    found: dict[str, bytes] = {}
    for message in log:
        for use in message.tool_uses:
            path, content = use.input.get("file_path"), use.input.get("content")
            if use.name == "Write" and isinstance(path, str) and isinstance(content, str):
                found[absolute_path(path, context)] = content.encode("utf-8", "replace")
    return found
