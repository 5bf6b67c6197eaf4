"""What the model has seen of files, written down beside the conversation and brought back with it.

A line of the session file has what is new since the one before; a message that tells of changed files has in its meta
what the model knows by it, because the process may end before another line. Contents are not written down: they are in
the log where a file was written whole, and else a change is told without its difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message
from agentcli.tools.base import ToolContext
from agentcli.tools.builtin import absolute_path
from agentcli.tools.files.read_cache import ReadCache, digest_of

SEEN = "seen"
"""In the meta of a message that tells of changed files: what the model has seen by it, in the form of `to_json`."""
MOST_RECALLED = 2_000
Stamp = tuple[int, ...] | None
Remember = Callable[[Json], None]
"""Write down what is new, by path; None for a file that is forgotten."""


@frozen
class Record:
    """What is known about one file."""

    digest: str
    whole: bool
    stamp: Stamp = None
    """Of the file when it had that digest: it need not be read again while it has this one."""
    told: str = ""
    """The digest that the model was told of without getting to know the content."""


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
    """All that was written down, the latest last. `lines`: what `Remember` got, each with the id of the last message
    before it."""
    by_message: dict[str, list[Json]] = {}
    for after, files in lines:
        by_message.setdefault(after, []).append(files)
    found: dict[str, Record] = {}
    _take(found, by_message.pop("", ()))
    for message in log:
        if SEEN in message.meta and not message.is_copy:
            _take(found, (message.meta[SEEN],))
        _take(found, by_message.pop(message.id, ()))
    return dict(list(found.items())[-MOST_RECALLED:])


def _take(found: dict[str, Record], lines: Iterable[object]) -> None:
    for files in lines:
        for path, data in files.items() if isinstance(files, Mapping) else ():
            found.pop(path, None)
            record = from_json(data)
            if record is not None:
                found[path] = record


def recall(cache: ReadCache, records: Mapping[str, Record], log: Sequence[Message], context: ToolContext) -> None:
    """Into the cache, with the content where the log has just that."""
    written = _written(log, context)
    for path, record in records.items():
        data = written.get(path)
        known = data if data is not None and digest_of(data) == record.digest else None
        cache.note_digest(path, record.digest, record.whole, known)


def _written(log: Sequence[Message], context: ToolContext) -> dict[str, bytes]:
    """What calls of Write put into files last. Whether it is still what the model knows, a digest has to tell."""
    found: dict[str, bytes] = {}
    for message in log:
        for use in message.tool_uses:
            path, content = use.input.get("file_path"), use.input.get("content")
            if use.name == "Write" and isinstance(path, str) and isinstance(content, str):
                found[absolute_path(path, context)] = content.encode("utf-8", "replace")
    return found
