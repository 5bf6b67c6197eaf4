"""Decode server-sent events into API events, and join deltas that arrived together.

Accepted: all three line endings, comments, characters split between packets, several data lines, a last event without
its empty line. Everything else raises `GarbageError`: after one invalid line the rest of the stream cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentcli.core.files.access import parse_json
from agentcli.core.messages import Json

MAX_EVENT_BYTES = 64 * 1024 * 1024
_TEXT_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
MAX_JOINED = 12_000
"""Maximum characters of a joined delta: as much as a front end can show at once without a noticeable pause."""
_EVENT_KEYS = {"type", "index", "delta"}
_FIELDS = (b"event", b"data", b"id", b"retry")


class GarbageError(Exception):
    """The message is the invalid line, shortened."""


class EventDecoder:
    """Decodes chunks as they arrive."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip_newline = False
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._first = True

    def feed(self, chunk: bytes) -> list[Json]:
        """The events completed by this chunk. Raises `GarbageError`."""
        if self._skip_newline and chunk:
            # The previous chunk ended inside a CRLF.
            chunk = chunk.removeprefix(b"\n")
            self._skip_newline = False
        if self._first and len(self._rest) + len(chunk) >= 3:
            self._first = False
            self._rest, chunk = b"", (self._rest + chunk).removeprefix(b"\xef\xbb\xbf")
        if not chunk:
            return []
        lines = (self._rest + chunk if self._rest else chunk).splitlines(keepends=True)
        self._rest = b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        self._skip_newline = chunk.endswith(b"\r")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise GarbageError("a line without an end")
        events: list[Json] = []
        for line in lines:
            event = self._line(line.rstrip(b"\r\n"))
            if event is not None:
                events.append(event)
        return events

    def finish(self) -> list[Json]:
        """End of the body: an event that lacks only its empty line is returned, any other rest is dropped."""
        try:
            event = (self._line(self._rest) if self._rest else None) or self._dispatch()
        except GarbageError:
            return []
        return [event] if event is not None else []

    def _line(self, line: bytes) -> Json | None:
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        name, _colon, value = line.partition(b":")
        if name not in _FIELDS:
            raise GarbageError(_shorten(line))
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > MAX_EVENT_BYTES:
                raise GarbageError("an event without an end")
        elif name == b"event":
            self._name = value
        return None

    def _dispatch(self) -> Json | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = b"", [], 0
        if not data:
            return None
        text = data[0] if len(data) == 1 else b"\n".join(data)
        if text == b"[DONE]":
            return None  # end marker of other APIs, added by some gateways
        try:
            value: Any = parse_json(text)
        except ValueError:
            raise GarbageError(_shorten(text)) from None
        if not isinstance(value, dict):
            raise GarbageError(_shorten(text))
        if "type" not in value and name:
            value["type"] = name.decode("utf-8", "replace")
        return value


def _shorten(line: bytes) -> str:
    return line[:200].decode("utf-8", "replace")


def merge_deltas(events: Sequence[Json]) -> list[Json]:
    """The events with adjacent deltas of one block joined, because passing an event through the program costs more than
    its text. Events with unknown fields stay unchanged. `events` is not
    modified."""
    merged: list[Json] = []
    field = ""
    pieces: list[str] = []
    size = 0
    for event in events:
        next_field = _text_field(event)
        text = event["delta"][next_field] if next_field else ""
        size += len(text)
        if next_field and field == next_field and merged[-1]["index"] == event["index"] and size <= MAX_JOINED:
            pieces.append(text)
            continue
        _join(merged, field, pieces)
        merged.append(event)
        field, pieces, size = next_field, [text], len(text)
    _join(merged, field, pieces)
    return merged


def _join(merged: list[Json], field: str, pieces: list[str]) -> None:
    if field and len(pieces) > 1:
        last = merged[-1]
        merged[-1] = {**last, "delta": {**last["delta"], field: "".join(pieces)}}


def _text_field(event: Json) -> str:
    """The field with the text of a delta; "" for every other event."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or event.keys() != _EVENT_KEYS or not isinstance(delta, dict):
        return ""
    field = _TEXT_FIELDS.get(str(delta.get("type")), "")
    return field if field and delta.keys() == {"type", field} and isinstance(delta[field], str) else ""
