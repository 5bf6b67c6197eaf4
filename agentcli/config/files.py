"""Read one settings file: a JSON object of limited size. Problems are returned with their position."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from agentcli.core.files.bounded_json import JsonLimitError, parse_json
from agentcli.core.files.bounded_read import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.format import byte_size
from agentcli.core.text.plural import counted, plural

SIZE_LIMIT = 1024 * 1024
MOST_PROBLEMS = 20
"""Most problems of one kind listed for one file; further ones are only counted."""
_LONGEST_NAME = 80


@frozen
class SettingsProblem:
    """A problem in the settings, as one or two sentences for the user."""

    text: str
    path: str = ""
    line: int | None = None
    column: int | None = None
    level: Literal["note", "warning"] = "warning"


@frozen
class SettingsDocument:
    """A parsed settings file. `values` is None if the file exists but is unusable."""

    values: dict[str, Any] | None
    problems: tuple[SettingsProblem, ...] = ()
    doubled: frozenset[str] = frozenset()
    """Names that occur twice in one object, of which only the last value is used."""
    raw: bytes = b""


def read_document(path: Path) -> SettingsDocument | None:
    """Read and parse a file; None if there is no such file. Never raises, never waits on a pipe."""
    name = str(path)
    raw = read_bounded(path, SIZE_LIMIT)
    if not isinstance(raw, Unread):
        return replace(parse_document(raw, name), raw=raw)
    match raw.reason:
        case Reason.MISSING:
            return None
        case Reason.TOO_LARGE:
            return _unusable(name, f"is larger than {byte_size(SIZE_LIMIT)}")
        case Reason.NOT_A_FILE:
            return _unusable(name, "is not a regular file")
        case Reason.UNREADABLE:
            return _unusable(name, f"cannot be read: {raw.detail}")


def parse_document(raw: bytes, name: str) -> SettingsDocument:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _unusable(name, "is UTF-16; save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        return _unusable(name, "is not valid UTF-8", line, column)
    if not text.strip():
        return SettingsDocument({})
    doubled: set[str] = set()

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            doubled.update(key for key, count in Counter(key for key, _value in pairs).items() if count > 1)
        return found

    try:
        values = parse_json(text, most_digits=4_000, object_pairs_hook=collect)
    except json.JSONDecodeError as error:
        what, position = _explain(error)
        line = text.count("\n", 0, position) + 1
        return _unusable(name, f"is not valid JSON: {what}", line, position - text.rfind("\n", 0, position))
    except JsonLimitError as error:
        return _unusable(name, str(error))
    if not isinstance(values, dict):
        return _unusable(name, "must hold one JSON object, such as {}")
    shown = sorted(doubled)[:MOST_PROBLEMS]
    twice = [SettingsProblem(f"{name}: {short(key)} appears twice; the last value is used.", name) for key in shown]
    if rest := len(doubled) - len(shown):
        twice.append(
            SettingsProblem(f"{name}: {counted(rest, 'more name')} {plural(rest, 'appears', 'appear')} twice.", name)
        )
    return SettingsDocument(values, tuple(twice), frozenset(doubled))


def short(name: str) -> str:
    """A quoted and shortened name for messages."""
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…")


def _unusable(name: str, what: str, line: int | None = None, column: int | None = None) -> SettingsDocument:
    place = f"{name}, line {line}, column {column}," if line is not None else name
    return SettingsDocument(None, (SettingsProblem(f"{place} {what}.", name, line, column),))


def _explain(error: json.JSONDecodeError) -> tuple[str, int]:
    """What is wrong, and at which character."""
    rest = error.doc[error.pos :].lstrip()
    before = error.doc[: error.pos].rstrip()
    if rest.startswith(("//", "/*", "#")):
        return "comments are not allowed", error.pos
    # Python 3.13 reports the comma, earlier versions the bracket after it.
    comma = error.pos if rest.startswith(",") else len(before) - 1
    if comma >= 0 and error.doc[comma] == "," and error.doc[comma + 1 :].lstrip()[:1] in ("}", "]"):
        return "remove the comma before the closing bracket", comma
    if rest.startswith("'"):
        return "strings need double quotes", error.pos
    return error.msg[:1].lower() + error.msg[1:], error.pos
