"""Reading one settings file: plain JSON, an object, of a sane size. What is wrong is a value with its place."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from agentcli.core.frozen import frozen

SIZE_LIMIT = 1024 * 1024


@frozen
class Problem:
    """One thing about the settings that a person should know, as one or two sentences."""

    text: str
    path: str = ""
    line: int | None = None
    column: int | None = None
    level: Literal["note", "warning"] = "warning"


@frozen
class Document:
    """`values` is None when the file is there and cannot be used: what it would have forbidden is not known."""

    values: dict[str, Any] | None
    problems: tuple[Problem, ...] = ()
    doubled: frozenset[str] = frozenset()
    """Names that occur twice in one object; only the last of each counted."""
    raw: bytes = b""
    """The bytes that were parsed."""


def read_document(path: Path) -> Document | None:
    """None if there is no such file. Never raises, never waits on a pipe."""
    name = str(path)
    try:
        # Not blocking: opening a FIFO would otherwise wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return _unusable(name, "is not a regular file")
            if status.st_size > SIZE_LIMIT:
                return _unusable(name, f"is larger than {SIZE_LIMIT // 1024} KB")
            raw = _read(descriptor)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return _unusable(name, f"cannot be read: {(error.strerror or 'unknown error').lower()}")
    return replace(parse_document(raw, name), raw=raw)


def _read(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, SIZE_LIMIT):
        pieces.append(piece)
    return b"".join(pieces)


def parse_document(raw: bytes, name: str) -> Document:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _unusable(name, "is UTF-16; save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        return _unusable(name, "is not valid UTF-8", line, column)
    if not text.strip():
        return Document({})
    doubled: set[str] = set()

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [key for key, _value in pairs]
            doubled.update(key for key in found if names.count(key) > 1)
        return found

    try:
        values = json.loads(text, object_pairs_hook=collect, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return _unusable(name, f"is not valid JSON: {_explain(error)}", error.lineno, error.colno)
    except RecursionError:
        return _unusable(name, "is nested too deeply")
    except ValueError as error:
        return _unusable(name, f"is not valid JSON: {error}")
    if not isinstance(values, dict):
        return _unusable(name, "must hold one JSON object, such as {}")
    twice = tuple(Problem(f"{name}: {key!r} is there twice; the last one counts.", name) for key in sorted(doubled))
    return Document(values, twice, frozenset(doubled))


def _unusable(name: str, what: str, line: int | None = None, column: int | None = None) -> Document:
    place = f"{name}, line {line}, column {column}," if line is not None else name
    return Document(None, (Problem(f"{place} {what}.", name, line, column),))


def _explain(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos : error.pos + 2]
    before = error.doc[: error.pos].rstrip()
    if rest in ("//", "/*") or rest.startswith("#"):
        return "comments are not allowed"
    if rest[:1] in ("}", "]") and before.endswith(","):
        return "there is a comma too many before the closing bracket"
    if rest.startswith("'"):
        return "strings need double quotes"
    return error.msg[:1].lower() + error.msg[1:]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON knows")
