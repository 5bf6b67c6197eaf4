"""Join deltas that arrived together: passing an event through the program costs more than its text."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.messages import Json

_TEXT_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
MOST_JOINED = 12_000
"""Maximum characters of a joined delta: as much as a front end can show at once without a noticeable pause."""
_EVENT_KEYS = {"type", "index", "delta"}


def merge_deltas(events: Sequence[Json]) -> list[Json]:
    """The events with adjacent deltas of one block joined. Events with unknown fields stay unchanged. `events` is not
    modified."""
    merged: list[Json] = []
    field = ""
    pieces: list[str] = []
    size = 0
    for event in events:
        next_field = _text_field(event)
        text = event["delta"][next_field] if next_field else ""
        size += len(text)
        if next_field and field == next_field and merged[-1]["index"] == event["index"] and size <= MOST_JOINED:
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
