"""Encode request bodies. Each message of a long conversation is encoded once, not once per turn."""

from __future__ import annotations

import json
import re
from typing import Any

from agentcli.core.messages import Json

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile("[\ud800-\udfff]")


class BodyEncoder:
    """Caches encoded messages and tools by the identity of their dictionaries; it refers to each, so that no id is
    reused. Of the system prompt, whose parts are made for each request, the last encoding is kept."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, tuple[Json, bytes]]] = {"messages": {}, "tools": {}}
        self._system: tuple[list[Any], bytes] = ([], b"[]")

    def encode(self, body: Json) -> bytes:
        """Pieces are joined once, at the end: a long conversation is megabytes, and each copy takes time."""
        parts: list[bytes] = []
        for key, value in body.items():
            parts += (b"," if parts else b"{", to_bytes(key), b":")
            if key in self._known:
                self._add_cached(key, value, parts)
            elif key == "system":
                parts.append(self._encoded_system(value))
            else:
                parts.append(to_bytes(value))
        return b"".join((*parts, b"}")) if parts else b"{}"

    def _encoded_system(self, system: list[Json]) -> bytes:
        # As lists of items: the order of keys counts, and the values are texts.
        items = [list(part.items()) for part in system]
        if self._system[0] != items:
            self._system = (items, to_bytes(system))
        return self._system[1]

    def _add_cached(self, key: str, values: list[Json], parts: list[bytes]) -> None:
        known = self._known[key]
        parts.append(b"[")
        for number, value in enumerate(values):
            entry = known.get(id(value))
            if entry is None or entry[0] is not value:
                entry = known[id(value)] = (value, to_bytes(value))
            parts += (b",", entry[1]) if number else (entry[1],)
        parts.append(b"]")
        if len(known) > 2 * len(values) + 64:
            self._known[key] = {id(value): known[id(value)] for value in values}


def to_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8. NUL and lone surrogates, which the API refuses, become U+FFFD (S8)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u0000" in text:
        text = _NUL.sub("\\1\ufffd", text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode("utf-8")
