"""Values that are kept compressed once they are seldom read: fields read as before and take a third of the memory.

A long conversation holds each large result in one place, its block, and everything else refers to that. When no request
shows the block any more, its text is compressed there; scrolling, rewinding or an export get an equal value, which is
decompressed at every access. The display of a result mostly repeats its text: it is compressed as the difference
from the block.
"""

from __future__ import annotations

import marshal
from typing import Any, Protocol

LEAST_PACKED = 1_000
"""Minimum bytes of a value that is compressed; smaller ones save next to nothing."""
_LEVEL = 6
"""A third of the size at 30 MB a second, an eighth smaller than level 1; higher levels take longer and save little."""
_QUICK_LEVEL = 4
"""For large values: random words and numbers take level 6 up to five times as long, 100 ms for 1 MB, to save 2 %."""
_LARGE = 64 * 1024
_MOST_SIMILAR = 31 * 1024
"""Bytes of a similar text that are used: zlib looks back 32 KB."""


class Similar(Protocol):
    """Something with a text that never changes, and that is kept anyway."""

    @property
    def text(self) -> str: ...


class Packed:
    """A value of strings, numbers, lists and dictionaries, compressed, maybe with the help of a similar text."""

    __slots__ = ("_data", "_similar")

    def __init__(self, data: bytes, similar: Similar | None = None) -> None:
        self._data = data
        self._similar = similar

    @property
    def value(self) -> Any:
        """Decompressed at every access: keep it in a variable while it is used."""
        import zlib

        data = zlib.decompressobj(zdict=_dictionary(self._similar)).decompress(self._data)
        return marshal.loads(data)  # noqa: S302 - made by `pack` in this process


def pack(value: Any, similar: Similar | None = None) -> Packed | None:
    """The value compressed; None if it is small, or of kinds that cannot be.

    `similar`: what has much of the same text. The packed value refers to it.
    """
    return _pack(value, similar)[0]


def _pack(value: Any, similar: Similar | None) -> tuple[Packed | None, int]:
    """The value compressed, or None, and the bytes that were compressed."""
    import zlib

    try:
        data = marshal.dumps(value)
    except ValueError:
        return None, 0
    if len(data) < LEAST_PACKED:
        return None, 0
    level = _LEVEL if len(data) <= _LARGE or similar is not None else _QUICK_LEVEL
    work = zlib.compressobj(level, zdict=_dictionary(similar))
    return Packed(work.compress(data) + work.flush(), similar), len(data)


def _dictionary(similar: Similar | None) -> bytes:
    return b"" if similar is None else similar.text[:_MOST_SIMILAR].encode("utf-8", "surrogatepass")[:_MOST_SIMILAR]


class PackableField:
    """A field of a class with slots whose values may be packed in place. Reading it gives the value in any case."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if instance is None:
            return self
        value = self._slot.__get__(instance)
        return value.value if type(value) is Packed else value

    def __set__(self, instance: object, value: object) -> None:
        self._slot.__set__(instance, value)

    def pack(self, instance: object, similar: Similar | None = None) -> int:
        """Compress the value of this instance if that is worth it. Returns the bytes that were compressed."""
        value = self._slot.__get__(instance)
        if type(value) is Packed:
            return 0
        packed, size = _pack(value, similar)
        if packed is not None:
            self._slot.__set__(instance, packed)
        return size


def packable_field(cls: type[Any], name: str) -> PackableField:
    """Let the values of a field of this class, which has slots, be packed in place."""
    field = PackableField(getattr(cls, name))
    setattr(cls, name, field)
    return field
