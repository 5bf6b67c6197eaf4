"""Compress values that are seldom read: fields read as before and take a third of the memory.

A long conversation holds each large result in one place, its block, and everything else refers to that. When no request
shows the block any more, its text is compressed there; scrolling, rewinding or an export get an equal value, which is
decompressed at every access. The display of a result mostly repeats its text: it is compressed as the difference
from the block. 2,000 reads of 12 KB of source code take 7 MB instead of 26.
"""

from __future__ import annotations

import marshal
from typing import Any, Protocol

MIN_COMPRESSED = 1_000
"""Minimum bytes of a value that is compressed; smaller ones save next to nothing."""
_LEVEL = 6
"""Compression level: a third of the size at 30 MB/s, an eighth smaller than level 1; higher levels are slower and save
little."""
_QUICK_LEVEL = 4
"""Level for large values: for random words and numbers level 6 takes up to five times as long, 100 ms for 1 MB, to save
2 %."""
_LARGE = 64 * 1024
_MAX_SIMILAR = 31 * 1024
"""Bytes of a similar text that are used: zlib looks back 32 KB."""


class Similar(Protocol):
    """An object with a text that never changes and that is kept in memory anyway."""

    @property
    def text(self) -> str: ...


class Compressed:
    """A compressed value of strings, numbers, lists and dictionaries, possibly relative to a similar text."""

    __slots__ = ("_data", "_similar")

    def __init__(self, data: bytes, similar: Similar | None = None) -> None:
        self._data = data
        self._similar = similar

    @property
    def value(self) -> Any:
        """The value, decompressed at every access: keep it in a variable while it is used."""
        import zlib

        data = zlib.decompressobj(zdict=_dictionary(self._similar)).decompress(self._data)
        return marshal.loads(data)  # noqa: S302 - made by `compress` in this process


def compress(value: Any, similar: Similar | None = None) -> tuple[Compressed | None, int]:
    """The compressed value, or None if it is small or of an unsupported type, and the number of bytes compressed.

    `similar`: an object with much of the same text. The compressed value keeps a reference to it.
    """
    import zlib

    try:
        data = marshal.dumps(value)
    except ValueError:
        return None, 0
    if len(data) < MIN_COMPRESSED:
        return None, 0
    level = _LEVEL if len(data) <= _LARGE or similar is not None else _QUICK_LEVEL
    work = zlib.compressobj(level, zdict=_dictionary(similar))
    return Compressed(work.compress(data) + work.flush(), similar), len(data)


def _dictionary(similar: Similar | None) -> bytes:
    return b"" if similar is None else similar.text[:_MAX_SIMILAR].encode("utf-8", "surrogatepass")[:_MAX_SIMILAR]


class CompressibleField:
    """A descriptor for a slot whose values may be compressed in place. Reading it always gives the original value."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if instance is None:
            return self
        value = self._slot.__get__(instance)
        return value.value if type(value) is Compressed else value

    def __set__(self, instance: object, value: object) -> None:
        self._slot.__set__(instance, value)

    def compress(self, instance: object, similar: Similar | None = None) -> int:
        """Compress the value of this instance if it is large enough. Returns the number of bytes compressed."""
        value = self._slot.__get__(instance)
        if type(value) is Compressed:
            return 0
        packed, size = compress(value, similar)
        if packed is not None:
            self._slot.__set__(instance, packed)
        return size


def compressible_field(cls: type[Any], name: str) -> CompressibleField:
    """Make a field of this class, which has slots, compressible in place."""
    field = CompressibleField(getattr(cls, name))
    setattr(cls, name, field)
    return field
