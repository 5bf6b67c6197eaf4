"""Which file contents the model has seen, to refuse overwriting content that it does not know.

The content of small files is kept too, so that a refusal can show what has changed. That cache is bounded and optional.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import weakref

from agentcli.core.frozen import frozen

MAX_KEPT_SIZE = 256 * 1024
MAX_KEPT = 2 * 1024 * 1024
"""Maximum bytes of all contents."""


@frozen
class Seen:
    digest: str
    """Digest of the file's bytes when it was read or written."""
    whole: bool
    """Whether the model saw the complete file."""


class ReadCache:
    """One per conversation, owned by the engine. Keys are resolved absolute paths."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._kept: dict[str, bytes] = {}
        self._kept_size = 0
        self._news: set[str] = set()
        # Previews run in threads and record contents too.
        self._guard = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def note(self, path: str, data: bytes, whole: bool = True) -> None:
        self.note_digest(path, digest_of(data), whole, data)

    def note_digest(self, path: str, digest: str, whole: bool = True, data: bytes | None = None) -> None:
        with self._guard:
            old = self._seen.get(path)
            # Reading a part again does not discard the rest while the file is unchanged.
            whole = whole or (old is not None and old.whole and old.digest == digest)
            self._seen.pop(path, None)  # move to the end
            self._seen[path] = Seen(digest, whole)
            self._news.add(path)
            self._keep(path, data)

    def seen(self, path: str) -> Seen | None:
        return self._seen.get(path)

    def content(self, path: str) -> bytes | None:
        """The content that the model last saw, if still cached."""
        with self._guard:
            return self._kept.get(path)

    def paths(self) -> list[str]:
        """All files of which the model has seen something, the latest last."""
        with self._guard:
            return list(self._seen)

    def forget(self, path: str) -> None:
        with self._guard:
            self._seen.pop(path, None)
            self._news.add(path)
            self._keep(path, None)

    def take_changed(self) -> set[str]:
        """The files recorded or forgotten since the last call, for storing them in the session file."""
        with self._guard:
            news, self._news = self._news, set()
            return news

    def lock(self, path: str) -> asyncio.Lock:
        """Lock for changing a file, held from reading until writing. Removed when unused."""
        lock = self._locks.get(path)
        if lock is None:
            lock = self._locks[path] = asyncio.Lock()
        return lock

    def _keep(self, path: str, data: bytes | None) -> None:
        self._drop(path)
        if data is None or len(data) > MAX_KEPT_SIZE:
            return
        self._kept[path] = data
        self._kept_size += len(data)
        while self._kept_size > MAX_KEPT:
            self._drop(next(iter(self._kept)))

    def _drop(self, path: str) -> None:
        self._kept_size -= len(self._kept.pop(path, b""))


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
