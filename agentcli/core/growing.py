"""Sequences that only ever grow: a longer one shares its items with the shorter ones it was made from.

The messages of a conversation are such a sequence. Adding to one costs what is added, and so does finding out what is
new since the last time, where a tuple would be copied and compared whole in every turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from operator import is_
from typing import Any, Generic, TypeVar, overload

STEP = 250
"""Messages that are worked on without a pause, where all of a long conversation have to be: a few milliseconds."""

T = TypeVar("T")
V = TypeVar("V")


class Growing(Sequence[T]):
    """Immutable, although its items are in a list: of that it shows the first ones, and nothing takes one out."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: list[T] = list(items)
        self._length = len(self._items)

    def adding(self, *items: T) -> Growing[T]:
        """A longer one. Where another was made from this one before, with other items, it gets a list of its own."""
        if not items:
            return self
        length = self._length
        if len(self._items) == length:
            self._items.extend(items)
            return self._view(length + len(items))
        there = self._items[length : length + len(items)]
        if not all(map(is_, there, items)):
            return Growing((*self, *items))
        self._items.extend(items[len(there) :])
        return self._view(length + len(items))

    def begins(self, other: Sequence[T]) -> bool:
        """Whether `other` continues this one."""
        if type(other) is Growing and other._items is self._items:
            return other._length >= self._length
        return len(other) >= self._length and all(map(is_, self, other))

    def shared_with(self, other: Sequence[T]) -> int:
        """The number of items that both begin with."""
        if type(other) is Growing and other._items is self._items:
            return min(self._length, other._length)
        return sum(takewhile(bool, map(is_, self, other)))

    def first(self, count: int) -> Growing[T]:
        """The first `count` items, without a copy."""
        return self._view(min(count, self._length))

    def to_tuple(self) -> tuple[T, ...]:
        items = self._items
        return tuple(items if len(items) == self._length else items[: self._length])

    def _view(self, length: int) -> Growing[T]:
        made: Growing[T] = Growing.__new__(Growing)
        made._items, made._length = self._items, length
        return made

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if type(index) is slice:  # faster than `isinstance`, and nothing else is one
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
        if not isinstance(other, Growing | tuple | list):
            return NotImplemented
        return len(other) == self._length and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Growing({self._items[: self._length]!r})"


def growing(items: Sequence[T]) -> Growing[T]:
    """The same sequence if it is a growing one, else a copy that is."""
    return items if isinstance(items, Growing) else Growing(items)


class Gathered(Generic[T, V]):
    """A value gathered from a growing sequence: each item is read once, all again if the sequence is another one."""

    def __init__(self, start: Callable[[], V], add: Callable[[V, T], V]) -> None:
        self._start = start
        self._add = add
        self._read: Growing[T] = Growing()
        self._value = start()

    def of(self, items: Sequence[T]) -> V:
        now, before = items if type(items) is Growing else growing(items), self._read
        known = before._length
        if not (now._items is before._items and now._length >= known) and not before.begins(now):
            known, self._value = 0, self._start()
        for item in now._items[known : now._length]:
            self._value = self._add(self._value, item)
        self._read = now
        return self._value


def latest(found: Callable[[T], Any]) -> Gathered[T, Any]:
    """The last of what `found` returns for the items, apart from None."""

    def add(before: Any, item: T) -> Any:
        now = found(item)
        return before if now is None else now

    return Gathered(lambda: None, add)
