"""Keep long conversations small and quick: append-only sequences that share their items, and compressed values.

A longer sequence shares its items with the shorter ones it was made from. The messages of a conversation are such a
sequence. Appending costs only what is added, and so does finding what is new since the last time; a tuple would be
copied and compared completely in every turn.

Values that are seldom read are compressed: fields read as before and take a third of the memory. A long conversation
holds each large result in one place, its block, and everything else refers to that. When no request shows the block
any more, its text is compressed there; scrolling, rewinding or an export get an equal value, which is decompressed at
every access. The display of a result mostly repeats its text: it is compressed as the difference from the block.
2,000 reads of 12 KB of source code take 7 MB instead of 26.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from operator import is_
from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")
V = TypeVar("V")


class AppendOnly(Sequence[T]):
    """Immutable, although its items are in a shared list: it shows the first ones, and nothing is ever removed."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: list[T] = list(items)
        self._length = len(self._items)

    def adding(self, *items: T) -> AppendOnly[T]:
        """A longer sequence. It gets a list of its own if another one was made from this one before, with other
        items."""
        if not items:
            return self
        length = self._length
        if len(self._items) == length:
            self._items.extend(items)
            return self._view(length + len(items))
        there = self._items[length : length + len(items)]
        if not all(map(is_, there, items)):
            return AppendOnly((*self, *items))
        self._items.extend(items[len(there) :])
        return self._view(length + len(items))

    def begins(self, other: Sequence[T]) -> bool:
        """Whether `other` continues this sequence."""
        if type(other) is AppendOnly and other._items is self._items:
            return other._length >= self._length
        return len(other) >= self._length and all(map(is_, self, other))

    def count_shared(self, other: Sequence[T]) -> int:
        """Number of items that both begin with."""
        if type(other) is AppendOnly and other._items is self._items:
            return min(self._length, other._length)
        return sum(takewhile(bool, map(is_, self, other)))

    def first(self, count: int) -> AppendOnly[T]:
        """The first `count` items, without a copy."""
        return self._view(min(count, self._length))

    def to_tuple(self) -> tuple[T, ...]:
        items = self._items
        return tuple(items if len(items) == self._length else items[: self._length])

    def _view(self, length: int) -> AppendOnly[T]:
        made: AppendOnly[T] = AppendOnly.__new__(AppendOnly)
        made._items, made._length = self._items, length
        return made

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if type(index) is slice:  # faster than `isinstance`; slices have no subclasses
            start, stop, step = index.indices(self._length)
            if step == 1:
                return tuple(self._items[start:stop])
            return tuple(self._items[place] for place in range(start, stop, step))
        place = index + self._length if index < 0 else index
        if not 0 <= place < self._length:
            raise IndexError("index out of range")
        return self._items[place]

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    def __reversed__(self) -> Iterator[T]:
        return map(self._items.__getitem__, range(self._length - 1, -1, -1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AppendOnly | tuple | list):
            return NotImplemented
        return len(other) == self._length and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AppendOnly({self._items[: self._length]!r})"


def as_append_only(items: Sequence[T]) -> AppendOnly[T]:
    """The same object if it is a `AppendOnly`, otherwise a copy as one."""
    return items if isinstance(items, AppendOnly) else AppendOnly(items)


class RunningValue(Generic[T, V]):
    """A value computed from a growing sequence: each item is read once, or all again if the sequence is a different
    one."""

    def __init__(self, start: Callable[[], V], add: Callable[[V, T], V]) -> None:
        self._start = start
        self._add = add
        self._read: AppendOnly[T] = AppendOnly()
        self._value = start()

    def of(self, items: Sequence[T]) -> V:
        now, before = items if type(items) is AppendOnly else as_append_only(items), self._read
        known = before._length
        if not (now._items is before._items and now._length >= known) and not before.begins(now):
            known, self._value = 0, self._start()
        for item in now._items[known : now._length]:
            self._value = self._add(self._value, item)
        self._read = now
        return self._value


def latest(found: Callable[[T], Any]) -> RunningValue[T, Any]:
    """The last value that `found` returns for the items, ignoring None."""

    def add(before: Any, item: T) -> Any:
        now = found(item)
        return before if now is None else now

    return RunningValue(lambda: None, add)


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
