"""Encode request bodies. Each message of a long conversation is encoded once, not once per turn.

Messages that the last requests had in common are kept as a few large pieces of bytes, which are sent without copying: a
long conversation is megabytes, and each copy takes time.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from typing import Any

from agentcli.core.append_only import AppendOnly
from agentcli.core.messages import Json

LARGE_PIECE = 256 * 1024
"""Size in bytes below which pieces are joined: sending one more piece costs as much as copying this many bytes."""

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class BodyMessages(list[Json]):
    """The messages of a body. The first `stable` ones are those of `sequence`, if that is known."""

    sequence: AppendOnly[Json] | None = None
    stable: int = 0


class BodyEncoder:
    """Caches encoded messages and tools by the identity of their dictionaries; it keeps a reference to each, so that no
    id is reused. Of the system prompt, whose parts are new objects in each request, the last encoding is kept."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Json, bytes]] = {}
        """Encoded messages by the identity of their dictionaries."""
        self._tools: dict[int, tuple[Json, bytes]] = {}
        """Encoded tools of the last request, likewise."""
        self._all_tools = b"[]"
        self._settled = _SettledMessages()
        self._system: tuple[list[Any], bytes] = ([], b"[]")

    def encode(self, body: Json) -> bytes:
        return b"".join(self.pieces(body))

    def pieces(self, body: Json) -> list[bytes]:
        """The encoded body in order; only the last pieces are small."""
        return _join(self._parts(body))

    def _parts(self, body: Json) -> list[bytes]:
        parts: list[bytes] = []
        for key, value in body.items():
            parts += (b"," if parts else b"{", _encoded_key(key), b":")
            if key == "messages":
                self._add_messages(value, parts)
            elif key == "tools":
                parts.append(self._encoded_tools(value))
            elif key == "system":
                parts.append(self._encoded_system(value))
            else:
                parts.append(to_bytes(value))
        return [*parts, b"}"] if parts else [b"{}"]

    def _encoded_system(self, system: list[Json]) -> bytes:
        # Compared as lists of items, because the order of keys matters.
        items = [list(part.items()) for part in system]
        if self._system[0] != items:
            self._system = (items, to_bytes(system))
        return self._system[1]

    def _encoded_tools(self, tools: list[Json]) -> bytes:
        known = self._tools
        if [*map(id, tools)] != [*known]:
            self._tools = {id(tool): known.get(id(tool)) or (tool, to_bytes(tool)) for tool in tools}
            self._all_tools = b"[%b]" % b",".join(self._tools[id(tool)][1] for tool in tools)
        return self._all_tools

    def _add_messages(self, values: list[Json], parts: list[bytes]) -> None:
        known, rest = self._known, values
        parts.append(b"[")
        if isinstance(values, BodyMessages) and values.sequence is not None:
            settled = self._settled.take(values.sequence.first(values.stable))
            for number, piece in enumerate(settled):
                parts += (b",", piece) if number else (piece,)
            rest = values[values.stable :]
        for number, value in enumerate(rest, len(values) - len(rest)):
            entry = known.get(id(value))
            if entry is None or entry[0] is not value:
                entry = known[id(value)] = (value, to_bytes(value))
            parts += (b",", entry[1]) if number else (entry[1],)
        parts.append(b"]")
        if len(known) > 2 * len(rest) + 64:
            self._known = {id(value): known[id(value)] for value in rest}


class _SettledMessages:
    """Encoded messages at the beginning of a conversation, in pieces that are each larger than the following ones."""

    def __init__(self) -> None:
        self._messages: AppendOnly[Json] = AppendOnly()
        self._pieces: list[tuple[int, bytes]] = []
        """Pieces, each with the number of messages up to its end."""

    def take(self, messages: AppendOnly[Json]) -> list[bytes]:
        """The pieces of these messages. Only messages that the last call did not have are encoded."""
        shared = self._messages.shared_with(messages)
        while self._pieces and self._pieces[-1][0] > shared:
            self._pieces.pop()
        done = self._pieces[-1][0] if self._pieces else 0
        if done < len(messages):
            self._pieces.append((len(messages), b",".join(map(to_bytes, messages[done:]))))
        pieces = self._pieces
        while len(pieces) > 1 and len(pieces[-2][1]) < 2 * len(pieces[-1][1]):
            (_end, before), (end, last) = pieces[-2:]
            pieces[-2:] = [(end, b",".join((before, last)))]
        self._messages = messages
        return [piece for _end, piece in pieces]


def _join(parts: Sequence[bytes]) -> list[bytes]:
    """The same bytes in few pieces: large ones are kept, small ones joined."""
    if sum(map(len, parts)) < LARGE_PIECE:
        return [b"".join(parts)]
    made: list[bytes] = []
    small: list[bytes] = []
    size = 0
    for part in parts:
        if len(part) >= LARGE_PIECE:
            made += (b"".join(small), part) if small else (part,)
            small, size = [], 0
            continue
        small.append(part)
        size += len(part)
        if size >= LARGE_PIECE:
            made.append(b"".join(small))
            small, size = [], 0
    return [*made, b"".join(small)] if small else made


def request_content(pieces: Sequence[bytes]) -> tuple[bytes | AsyncIterator[bytes], dict[str, str]]:
    """The content of a request for httpx2, and additional headers for it."""
    if len(pieces) == 1:
        return pieces[0], {}

    async def each() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return each(), {"content-length": str(sum(map(len, pieces)))}


def to_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8. NUL and lone surrogates, which the API refuses, become U+FFFD."""
    text = _encode(value)
    if "\\u0000" in text:
        text = _NUL.sub("\\1\ufffd", text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode("utf-8")


_encoded_key = lru_cache(maxsize=64)(to_bytes)
