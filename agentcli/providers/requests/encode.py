"""Encode request bodies. Each message of a long conversation is encoded once, not once per turn."""

from __future__ import annotations

import json
import re
from typing import Any

from agentcli.core.messages import Json

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BodyEncoder:
    """Keeps the encoding of messages and tools by the identity of their dictionaries, and a reference to each, so that
    no id is reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Json, bytes]] = {}

    def encode(self, body: Json) -> bytes:
        kept = [*body.get("messages", ()), *body.get("tools", ())]
        if len(self._known) > 2 * len(kept) + 64:
            self._known = {id(value): known for value in kept if (known := self._known.get(id(value))) is not None}
        fields = (
            to_bytes(key) + b":" + (self._encode_list(value) if key in ("messages", "tools") else to_bytes(value))
            for key, value in body.items()
        )
        return b"{%b}" % b",".join(fields)

    def _encode_list(self, values: list[Json]) -> bytes:
        keys, known = [*map(id, values)], self._known
        for key, value in zip(keys, values, strict=True):
            if key not in known:
                known[key] = (value, to_bytes(value))
        return b"[%b]" % b",".join([known[key][1] for key in keys])


def to_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8. NUL and lone surrogates, which the API refuses, become U+FFFD."""
    text = _encode(value)
    if "\\u0000" in text:
        text = _NUL.sub("\\1\ufffd", text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode("utf-8")
