"""Encode a frame as one line of JSON: valid UTF-8, no raw line, control or hidden characters, at most one MiB.

Readers of stream-json fail on longer lines, so longer content is visibly truncated here, and only here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.text.plaintext import json_for_terminal

LINE_LIMIT = 1024 * 1024 - 1024
"""Bytes; a little below the limit of readers."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_CUT = 256 * 1024
_MIN_CUT = 64


def encode_line(frame: Json) -> bytes:
    line = encode_whole(frame)
    if len(line) <= LINE_LIMIT:
        return line
    shorter = dict(frame)
    # The structured tool result repeats the result, so it is dropped first.
    if "tool_use_result" in shorter:
        shorter["tool_use_result"] = {"truncated": True, "note": "left out: the line would be longer than 1 MiB"}
    shorter["truncated"] = True
    limit = _FIRST_CUT
    while len(line := encode_whole(shorter)) > LINE_LIMIT and limit >= _MIN_CUT:
        shorter = _cut(shorter, limit)
        limit //= 4
    return (
        line
        if len(line) <= LINE_LIMIT
        else encode_whole({key: frame.get(key) for key in _ESSENTIAL} | {"truncated": True})
    )


_ESSENTIAL = ("type", "subtype", "uuid", "session_id", "is_error", "num_turns", "duration_ms", "duration_api_ms")


def encode_whole(frame: Json) -> bytes:
    """Encode a frame as one line of any length."""
    text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"), default=str)
    if not text.isascii():
        # A lone surrogate has no UTF-8 form, and many parsers refuse its escape.
        text = _SURROGATE.sub("\ufffd", text)
    return f"{json_for_terminal(text)}\n".encode()


def _cut(value: Any, limit: int) -> Any:
    """Cut strings to `limit` characters and lists to a sixteenth of it, at least 8 entries."""
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]}… [{len(value) - limit} characters left out: the line would be longer than 1 MiB]"
    if isinstance(value, dict):
        if value.get("type") == "image":
            return {"type": "text", "text": "[an image, left out: the line would be longer than 1 MiB]"}
        return {key: _cut(part, limit) for key, part in value.items()}
    if isinstance(value, list | tuple):
        most = max(8, limit // 16)
        left_out = len(value) - most
        parts = [_cut(part, limit) for part in value[:most]]
        return [*parts, f"… {left_out} more"] if left_out > 0 else parts
    return value
