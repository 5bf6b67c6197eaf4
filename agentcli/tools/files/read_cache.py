"""What the model has seen of which file: the base for refusing to overwrite what it does not know.

Of small files the content is kept as well, so that a refusal can say what has changed. That is bounded, and nothing
depends on it being there.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import weakref
from collections import deque

from agentcli.core.frozen import frozen

LARGEST_KEPT = 256 * 1024
MOST_KEPT = 8 * 1024 * 1024
MOST_RUNS = 50
"""Commands that are remembered, the latest."""


@frozen
class Seen:
    digest: str
    """Of the file's bytes when it was read or written."""
    whole: bool
    """Whether the model saw all of it."""


@frozen
class CommandRun:
    """A shell command of the model that has run in the foreground, in nanoseconds since the epoch."""

    command: str
    began: int
    ended: int


class ReadCache:
    """One per conversation, owned by the engine. Keys are resolved absolute paths."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._kept: dict[str, bytes] = {}
        self._kept_size = 0
        self._news: set[str] = set()
        self.runs: deque[CommandRun] = deque(maxlen=MOST_RUNS)
        # Previews run in threads, and tell the model things as well.
        self._guard = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def note(self, path: str, data: bytes, whole: bool = True) -> None:
        self.note_digest(path, digest_of(data), whole, data)

    def note_digest(self, path: str, digest: str, whole: bool = True, data: bytes | None = None) -> None:
        """`data`, if given, is what the digest is of."""
        with self._guard:
            old = self._seen.get(path)
            # Reading a part again does not make the model forget the rest, as long as the file is the same.
            whole = whole or (old is not None and old.whole and old.digest == digest)
            self._seen.pop(path, None)  # so that it comes last
            self._seen[path] = Seen(digest, whole)
            self._news.add(path)
            self._keep(path, data)

    def seen(self, path: str) -> Seen | None:
        return self._seen.get(path)

    def content(self, path: str) -> bytes | None:
        """The file as the model last saw it, if that is still known."""
        return self._kept.get(path)

    def paths(self) -> list[str]:
        """All files that the model has seen something of, the latest last."""
        with self._guard:
            return list(self._seen)

    def forget(self, path: str) -> None:
        with self._guard:
            self._seen.pop(path, None)
            self._news.add(path)
            self._keep(path, None)

    def take_news(self) -> set[str]:
        """The files that were noted or forgotten since this was last asked, by whoever writes them down."""
        with self._guard:
            news, self._news = self._news, set()
            return news

    def lock(self, path: str) -> asyncio.Lock:
        """Held by whoever changes the file, from reading it to having written it. Gone when nobody holds it."""
        lock = self._locks.get(path)
        if lock is None:
            lock = self._locks[path] = asyncio.Lock()
        return lock

    def _keep(self, path: str, data: bytes | None) -> None:
        self._kept_size -= len(self._kept.pop(path, b""))
        if data is None or len(data) > LARGEST_KEPT:
            return
        self._kept[path] = data
        self._kept_size += len(data)
        while self._kept_size > MOST_KEPT:
            self._kept_size -= len(self._kept.pop(next(iter(self._kept))))


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
