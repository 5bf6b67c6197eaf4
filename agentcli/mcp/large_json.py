"""Parse large JSON in a thread without stopping the event loop.

The C parser of the standard library holds the interpreter's lock until it is done: 10 MB of JSON in a thread stop all
other threads for a quarter of a second. Here only single strings are handled in C; the rest is Python code, which other
threads may interrupt. It is eight times slower, so small messages are parsed directly.
"""

from __future__ import annotations

import codecs
import json
from json import decoder, scanner
from typing import Any

from agentcli.core.bounded_json import JsonLimitError, is_too_deep

DEEPEST_MESSAGE = 80
_PIECE = 1024 * 1024
_LONG = 64 * 1024
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def parse_large_json(data: bytes) -> Any:
    """Raises `ValueError`."""
    decode = codecs.getincrementaldecoder("utf-8")()
    text = "".join(decode.decode(data[start : start + _PIECE]) for start in range(0, len(data), _PIECE))
    text += decode.decode(b"", True)
    try:
        value = _Decoder().decode(text)
    except RecursionError:
        raise JsonLimitError("is nested too deep") from None
    if is_too_deep(value, deepest=DEEPEST_MESSAGE):
        raise JsonLimitError(f"is nested more than {DEEPEST_MESSAGE} levels deep")
    return value


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(parse_constant=_refuse_constant, parse_int=_integer)
        self.parse_object = decoder.JSONObject  # type: ignore[attr-defined]
        self.parse_array = decoder.JSONArray  # type: ignore[attr-defined]
        self.parse_string = _string
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def _refuse_constant(name: str) -> Any:
    raise JsonLimitError(f"has {name}, which is not a number that JSON knows")


def _integer(digits: str) -> int:
    if len(digits) > 300:
        raise JsonLimitError(f"has a number of {len(digits):,} digits")
    return int(digits)


def _string(text: str, start: int, strict: bool = True) -> tuple[str, int]:
    """The string whose first character is at `start`, and where the text goes on after its closing quote."""
    end = text.find('"', start)
    if end - start < _LONG and end > 0:
        value: tuple[str, int] = decoder.scanstring(text, start, strict)  # type: ignore[attr-defined]
        return value
    pieces: list[str] = []
    at = start
    while end >= 0:
        escape = text.find("\\", at, end)
        if escape < 0:
            pieces.append(text[at:end])
            return "".join(pieces), end + 1
        pieces.append(text[at:escape])
        piece, at = _escaped(text, escape)
        pieces.append(piece)
        if at > end:
            end = text.find('"', at)
    raise json.JSONDecodeError("Unterminated string starting at", text[:100], start)


def _escaped(text: str, at: int) -> tuple[str, int]:
    """The character that an escape stands for, and where the text goes on."""
    kind = text[at + 1 : at + 2]
    if kind in _ESCAPES:
        return _ESCAPES[kind], at + 2
    # A surrogate pair is two escapes; a string of just these and a quote is short, so C reads it.
    pair = text[at + 6 : at + 8] == "\\u" and text[at + 2 : at + 4].lower() in ("d8", "d9", "da", "db")
    end = at + (12 if pair else 6)
    value, _end = decoder.scanstring(text[at:end] + '"', 0, True)  # type: ignore[attr-defined]
    return value, end
