"""Process large JSON and texts of tens of megabytes in a thread without stopping the event loop.

A single operation of the standard library on such a text, such as parsing it, holds the interpreter's lock: 10 MB of
JSON stop all other threads for a quarter of a second. Here only single strings are handled in C; the rest is Python
code, which other threads may interrupt. It is eight times slower, so small messages are parsed directly.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from json import decoder, scanner
from typing import Any

from agentcli.core.files.bounded_read import JsonLimitError, is_too_deep, number_limits
from agentcli.core.text.plaintext import ControlStripper, plain_text

PIECE = 64 * 1024
"""Characters that are processed at once; a longer text counts as large."""
_BLOCK = 1024 * 1024


def pieces_of(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def joined(pieces: Iterable[str]) -> str:
    """Like `"".join`, which copies all of them at once."""
    text = ""
    block: list[str] = []
    size = 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK:
            text += "".join(block)  # in place: nothing else refers to the text
            block, size = [], 0
    text += "".join(block)
    return text


def plain_large_text(text: str) -> str:
    """Like `plain_text`, in pieces."""
    if len(text) <= PIECE:
        return plain_text(text)
    stripper = ControlStripper()
    return joined([*map(stripper.feed, pieces_of(text)), stripper.finish()])


MAX_MESSAGE_DEPTH = 300
_PIECE = 1024 * 1024
_LONG = 64 * 1024
_PART = 1_000
_SMALL = 100
_TAKEN_APART = 2
"""Levels of containers that are always processed in Python, however small they are."""
_PIECES = re.compile(
    r'(?>(?>[^\\"]{1,4096}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u[0-9a-fA-F]{4}|\\[^u]){1,512})'
)
"""A part of a string that ends neither inside an escape nor between the halves of a surrogate pair."""


def parse_large_json(data: bytes) -> Any:
    """Parse JSON. Raises `ValueError`."""
    decode = codecs.getincrementaldecoder("utf-8")()
    text = joined(decode.decode(data[start : start + _PIECE]) for start in range(0, len(data), _PIECE))
    text += decode.decode(b"", True)
    try:
        value = _Decoder().decode(text)
    except RecursionError:
        raise JsonLimitError("is nested too deep") from None
    if is_too_deep(value, deepest=MAX_MESSAGE_DEPTH):
        raise JsonLimitError(f"is nested more than {MAX_MESSAGE_DEPTH} levels deep")
    return value


def dump_large_json(value: Any) -> str:
    """Like `json.dumps` with `ensure_ascii=False`."""
    return joined(_dump(value))


def _dump(value: Any, depth: int = 0) -> Iterator[str]:
    """The JSON in pieces. Containers that are large, or may contain large ones, are split; the rest is written in C."""
    if isinstance(value, str) and len(value) > _LONG:
        yield '"'
        for start in range(0, len(value), _LONG):
            yield json.dumps(value[start : start + _LONG], ensure_ascii=False)[1:-1]
        yield '"'
    elif isinstance(value, dict) and (len(value) > _SMALL or (value and depth < _TAKEN_APART)):
        before = "{"
        for key, each in value.items():
            yield f"{before}{json.dumps(key, ensure_ascii=False)}: "
            yield from _dump(each, depth + 1)
            before = ", "
        yield "}"
    elif isinstance(value, list) and (len(value) > _SMALL or (value and depth < _TAKEN_APART)):
        before = "["
        for each in value:
            yield before
            yield from _dump(each, depth + 1)
            before = ", "
        yield "]"
    else:
        yield json.dumps(value, ensure_ascii=False)


def take_apart(value: Any) -> None:
    """Free a large value piece by piece: freeing it at once would stop the other threads."""
    waiting = [value]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            waiting += [each for each in container.values() if isinstance(each, dict | list)]
            container.clear()
        elif isinstance(container, list):
            while container:
                part = container[-_PART:]
                del container[-_PART:]
                waiting += [each for each in part if isinstance(each, dict | list)]


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(**number_limits())
        self.parse_object = decoder.JSONObject  # type: ignore[attr-defined]
        self.parse_array = decoder.JSONArray  # type: ignore[attr-defined]
        self.parse_string = _string
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def _string(text: str, start: int, strict: bool = True) -> tuple[str, int]:
    """The string that begins at `start`, and the index after its closing quote."""
    end = text.find('"', start, start + _LONG)
    if end >= 0:
        short: tuple[str, int] = decoder.scanstring(text, start, strict)  # type: ignore[attr-defined]
        return short
    pieces: list[str] = []
    at = start
    while found := _PIECES.match(text, at):
        piece = found[0]
        if "\\" in piece:
            piece, _end = decoder.scanstring(piece + '"', 0, strict)  # type: ignore[attr-defined]
        pieces.append(piece)
        at = found.end()
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Unterminated string starting at", text[:100], 0)
    return joined(pieces), at + 1
