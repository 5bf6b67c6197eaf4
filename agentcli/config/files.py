"""Settings files: read one within limits, validate its values, replace it atomically.

Problems are returned with their position; only writing raises.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from agentcli.config.schema import Key
from agentcli.core.files.access import JsonLimitError, Reason, Unread, parse_json, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.format import byte_size, counted, plural

SIZE_LIMIT = 1024 * 1024
MAX_PROBLEMS = 20
"""Most problems of one kind listed for one file; further ones are only counted."""
_MAX_NAME_CHARS = 80


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
    shown = sorted(doubled)[:MAX_PROBLEMS]
    twice = [SettingsProblem(f"{name}: {short(key)} appears twice; the last value is used.", name) for key in shown]
    if rest := len(doubled) - len(shown):
        twice.append(
            SettingsProblem(f"{name}: {counted(rest, 'more name')} {plural(rest, 'appears', 'appear')} twice.", name)
        )
    return SettingsDocument(values, tuple(twice), frozenset(doubled))


def short(name: str) -> str:
    """A quoted and shortened name for messages."""
    return repr(name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…")


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


# -------------------------------------------------------------------------------------------------------------- values

_KIND_NAMES = {
    "text": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "texts": "a list of strings",
    "object": "an object",
    "text map": "an object whose values are strings",
    "list map": "an object whose values are lists",
}
_MAX_NUMBER = 10**15
"""Upper limit for numbers, which also excludes infinity and NaN."""
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_VARIABLE_NAME = re.compile(r"[^=\0]+")


class InvalidValue(Exception):
    """`str(error)` completes a sentence: "<key> must be …". Caught inside this package."""


def parse_value(key: Key, value: Any) -> Any:
    """Validate and convert a value (lists become tuples). Raises `InvalidValue`."""
    value = _check_type(key, value)
    if key.choices and value not in key.choices:
        raise InvalidValue("one of " + ", ".join(key.choices))
    if key.kind in ("integer", "number"):
        if key.minimum is not None and value < key.minimum:
            raise InvalidValue(f"at least {key.minimum:g}")
        if key.maximum is not None and value > key.maximum:
            raise InvalidValue(f"at most {key.maximum:g}")
    return value


def _check_type(key: Key, value: Any) -> Any:
    match key.kind, value:
        case "text", str():
            return value
        case "integer", int() if not isinstance(value, bool) and abs(value) < _MAX_NUMBER:
            return value
        case "number", int() | float() if not isinstance(value, bool) and abs(value) < _MAX_NUMBER:
            return float(value)
        case "boolean", bool():
            return value
        case "texts", list() | tuple() if all(isinstance(item, str) for item in value):
            return tuple(value)
        case "texts", str() if not key.merge:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        case "object", dict():
            return value
        case "list map", dict() if all(isinstance(item, list) for item in value.values()):
            return value
        case "text map", dict() if all(_is_variable(name, item) for name, item in value.items()):
            return value
        case _:
            raise InvalidValue(_KIND_NAMES[key.kind])


def parse_text(key: Key, text: str) -> Any:
    """Parse the value of an environment variable. Raises `InvalidValue`."""
    if key.kind == "boolean":
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise InvalidValue(_KIND_NAMES[key.kind])
    if key.kind in ("integer", "number"):
        try:
            number = int(text) if key.kind == "integer" else float(text)
        except ValueError:
            raise InvalidValue(_KIND_NAMES[key.kind]) from None
        return parse_value(key, number)
    return parse_value(key, text)


def _is_variable(name: Any, value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and _VARIABLE_NAME.fullmatch(name) is not None


# ------------------------------------------------------------------------------------------------------------- writing


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file, by locking a `.lock` file beside it. Raises `OSError`."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def read_entries(path: Path | None, key: str, max_bytes: int) -> dict[str, Any]:
    """The object `key` of a JSON file of the state folder; empty if there is no usable file."""
    try:
        document = parse_json(read_bounded(path, max_bytes) or b"{}") if path is not None else {}
    except ValueError:
        return {}
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


@contextmanager
def change_entries(path: Path, key: str, max_bytes: int) -> Iterator[dict[str, Any]]:
    """Read the object `key` of a JSON file of the state folder, and write it after the block. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_file(path):
        entries = read_entries(path, key, max_bytes)
        yield entries
        replace_file(path, json.dumps({"version": 1, key: entries}, indent=1).encode(), 0o600)


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Replace the content: write a temporary file, sync it, rename it. The folder must exist. Follows a link.

    Raises `OSError` and leaves the old file untouched then. An existing file keeps its permission bits.
    """
    target = path.resolve()
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode & 0o777
    replace_in_place(target, data, mode)


def replace_in_place(target: Path, data: bytes, mode: int) -> None:
    """Like `replace_file`, with exactly these permission bits, and without following a link. Raises `OSError`."""
    beside = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            # The umask may have removed bits, and an inherited ACL may have added some.
            os.fchmod(descriptor, mode)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
