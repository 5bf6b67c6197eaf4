"""Encode request bodies. Each message of a long conversation is encoded once, not once per turn."""

from __future__ import annotations

import json
import re
from typing import Any

from agentcli.core.messages import Json

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile("[\ud800-\udfff]")


class BodyEncoder:
    """Caches encoded messages by the identity of their dictionaries; it refers to each, so that no id is reused."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Json, bytes]] = {}

    def encode(self, body: Json) -> bytes:
        """Pieces are joined once, at the end: a long conversation is megabytes, and each copy takes time."""
        parts: list[bytes] = []
        for key, value in body.items():
            parts += (b"," if parts else b"{", to_bytes(key), b":")
            if key == "messages":
                self._add_messages(value, parts)
            else:
                parts.append(to_bytes(value))
        return b"".join((*parts, b"}")) if parts else b"{}"

    def _add_messages(self, messages: list[Json], parts: list[bytes]) -> None:
        known = self._known
        parts.append(b"[")
        for number, message in enumerate(messages):
            entry = known.get(id(message))
            if entry is None or entry[0] is not message:
                entry = known[id(message)] = (message, to_bytes(message))
            parts += (b",", entry[1]) if number else (entry[1],)
        parts.append(b"]")
        if len(known) > 2 * len(messages) + 64:
            self._known = {id(message): known[id(message)] for message in messages}


def to_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8. NUL and lone surrogates, which the API refuses, become U+FFFD (S8)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u0000" in text:
        text = _NUL.sub("\\1\ufffd", text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode("utf-8")
