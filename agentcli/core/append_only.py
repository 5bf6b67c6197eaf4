"""Append-only sequences: a longer one shares its items with the shorter ones it was made from.

The messages of a conversation are such a sequence. Appending costs only what is added, and so does finding what is new
since the last time; a tuple would be copied and compared completely in every turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from operator import is_
from typing import Any, Generic, TypeVar, overload

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

    def shared_with(self, other: Sequence[T]) -> int:
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
