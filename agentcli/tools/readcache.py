"""What the model has seen of which file: the base for refusing to overwrite what it does not know."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    digest: str
    """Of the file's bytes when it was read or written."""
    whole: bool
    """Whether the model saw all of it."""


class ReadCache:
    """One per conversation, owned by the engine. Keys are resolved absolute paths."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def note(self, path: str, data: bytes, whole: bool = True) -> None:
        # Re-inserting keeps the dictionary in order of last use.
        self._seen.pop(path, None)
        self._seen[path] = Seen(digest_of(data), whole)

    def seen(self, path: str) -> Seen | None:
        return self._seen.get(path)

    def forget(self, path: str) -> None:
        self._seen.pop(path, None)

    def recent(self) -> Iterator[str]:
        """Paths, most recently used first."""
        return reversed(list(self._seen))


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
