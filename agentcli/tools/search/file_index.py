"""Index of the files and folders below a root, for path completion while typing (`@src/eng`).

`PathIndex` searches paths fuzzily. They are kept as text, some thousand in one string (a chunk), which takes hardly
more memory than their characters: a tree may have a million. A search goes chunk by chunk, has its best matches ready
at any time, and continues where it stopped, also over paths that were added meanwhile. A longer query searches only the
matches of its beginning.

`FileIndex` keeps a `PathIndex` up to date from ripgrep's file list. File contents are never read.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, islice

from agentcli.core.aio import AbortController, cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.text.fuzzy import fold_case, fuzzy_match, is_case_sensitive
from agentcli.tools.base import ToolContext
from agentcli.tools.search.ripgrep import list_files

CHUNK_PATHS = 4_000
_MAX_QUERY_LENGTH = 200
_MAX_SCORED = 200
"""Matches that are all scored. Of more, only some of each kind are: the path is among them, or needs another letter."""
_MAX_OF_A_KIND = 60
_MAX_NARROWED = 20_000
"""Matches that a search keeps, so that a longer query searches only them."""


@frozen
class Match:
    path: str
    """Relative to the root; a folder ends with a slash."""
    positions: tuple[int, ...]
    score: int


def _shortest(paths: Iterable[str]) -> list[str]:
    """Sort paths: of two equally good ones the shorter comes first."""
    found = sorted(paths)
    found.sort(key=len)
    return found


class PathIndex:
    """All paths of a tree. Paths are only added; one thread may add while another searches."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._chunks: list[str] = []
        self._last: PathSearch | None = None
        self._count = 0
        self.size = 0
        """Characters in memory."""
        source = iter(paths)
        while some := list(islice(source, CHUNK_PATHS)):
            self.add(some)

    def __len__(self) -> int:
        return self._count

    def add(self, paths: Iterable[str]) -> None:
        """Add paths, a few thousand at a time."""
        fitting = _shortest(path for path in paths if path and "\n" not in path)
        if fitting:
            self._count += len(fitting)
            self._chunks.append("\n".join(fitting))
            self.size += len(self._chunks[-1])

    def search(self, query: str, limit: int = 50) -> list[Match]:
        """The best matches of all paths, best first; for an empty query the shortest paths."""
        found = self.start(query)
        found.work()
        return found.matches(limit)

    def start(self, query: str) -> PathSearch:
        """Start a search, or continue the last one for the same query; `PathSearch.work` does it."""
        query, count, last = query[:_MAX_QUERY_LENGTH], len(self._chunks), self._last
        if last is not None and last.covered not in (None, count):
            last = None
        if last is None or last.query != query:
            matches = last.all_matches if last is not None and query.startswith(last.query) else None
            if matches is None:
                last = PathSearch(query, self._chunks)
            else:
                last = PathSearch(query, PathIndex(matches)._chunks, count)
            self._last = last
        return last


class PathSearch:
    """The search for one query, in all chunks of the index or in the matches of its beginning. For one thread."""

    def __init__(self, query: str, chunks: Sequence[str], covered: int | None = None) -> None:
        """`covered`: if `chunks` are matches of a beginning, how many chunks of the index they come from; None:
        `chunks` are those of the index, which may grow."""
        self.query = query
        self.covered = covered
        self._chunks = chunks
        self._searched = 0
        """Number of chunks that were searched."""
        self._exact = is_case_sensitive(query)
        self._match = re.compile("".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in query), re.DOTALL).match
        self._all: list[str] = []
        """All matches, as long as they are few enough to be kept."""
        self._count = 0
        self._kinds: list[list[str]] = [[] for _kind in range(5)]
        """The shortest matches of each kind that users usually mean, such as paths whose name starts with the query."""

    @property
    def is_complete(self) -> bool:
        return self._searched == len(self._chunks)

    @property
    def all_matches(self) -> list[str] | None:
        """All matches; None if the search is not complete, or they are too many."""
        return self._all if self.is_complete and len(self._all) == self._count else None

    def work(self, seconds: float | None = None) -> None:
        """Continue for at most `seconds`, or one chunk."""
        end = None if seconds is None else time.perf_counter() + seconds
        while not self.is_complete:
            self._search(self._chunks[self._searched])
            self._searched += 1
            if end is not None:
                if time.perf_counter() >= end:
                    return
                # Otherwise the event loop waits five milliseconds for the interpreter lock at each of its steps.
                time.sleep(0.0002)

    def matches(self, limit: int, is_hidden: Callable[[str], bool] | None = None) -> list[Match]:
        """The best matches so far, best first, without hidden paths."""
        candidates: Iterable[str] = self._all
        if self._count > _MAX_SCORED:
            shortest = _shortest(self._all)[:_MAX_OF_A_KIND]
            candidates = dict.fromkeys(chain(shortest, *self._kinds))
        scored = [(path, found) for path in candidates if (found := fuzzy_match(self.query, path)) is not None]
        scored.sort(key=lambda each: (-each[1].score, len(each[0]), each[0]))
        shown = (each for each in scored if is_hidden is None or not is_hidden(each[0]))
        return [Match(path, found.positions, found.score) for path, found in islice(shown, limit)]

    def _search(self, chunk: str) -> None:
        """Find the paths of a chunk that contain the letters of the query in order."""
        compared = (
            chunk if self._exact else chunk.lower() if chunk.isascii() else "\n".join(map(fold_case, chunk.split("\n")))
        )
        if not all(char in compared for char in self.query):
            return
        lines = compared.split("\n")
        if self._count > _MAX_NARROWED and all(len(kind) == _MAX_OF_A_KIND for kind in self._kinds):
            # Longer paths than those that were found are of no use.
            del lines[bisect_right(lines, max(len(kind[-1]) for kind in self._kinds), key=len) :]
        hits = list(map(self._match, lines))
        paths, lines = list(compress(chunk.split("\n"), hits)), list(compress(lines, hits))
        self._count += len(paths)
        self._all += paths if self._count <= _MAX_NARROWED else paths[:_MAX_OF_A_KIND]
        query, names = self.query, [line[line.rfind("/", 0, -1) + 1 :] for line in lines]
        found = (
            (path for path, name in zip(paths, names, strict=True) if self._match(name)),
            (path for path, name in zip(paths, names, strict=True) if query in name),
            (path for path, name in zip(paths, names, strict=True) if name.startswith(query)),
            (path for path, line in zip(paths, lines, strict=True) if query in line),
            (path for path, line in zip(paths, lines, strict=True) if f"/{query}" in line),
        )
        for kind, more in zip(self._kinds, found if query in compared else found[:1], strict=False):
            kind[:] = _shortest([*kind, *islice(more, _MAX_OF_A_KIND)])[:_MAX_OF_A_KIND]


MAX_PATHS = 2_000_000
MAX_CHARACTERS = 190_000_000
"""Maximum characters of all paths in memory, one byte each in most trees; twice as many during a second listing."""
_TIME_LIMIT = 120.0


@frozen
class FoundPaths:
    matches: list[Match]
    is_complete: bool = True
    """Whether all files are listed and all listed paths were searched."""
    listed: int = 0
    """Number of paths listed so far."""
    is_cut: bool = False
    """Whether there are more files than the index holds."""


class FileIndex:
    """Answers immediately from the paths listed so far. Call `aclose` at the end."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        # Not the shell's directory: a typed path means the same during the whole session.
        self._root = str(context.working_dirs[0])
        self._prefix = self._root.rstrip("/") + "/"
        self._index = PathIndex()
        self._is_listed = False
        self._is_cut = False
        self._refreshing: asyncio.Task[None] | None = None
        self.listing_seconds = 0.0
        """Duration of the last listing."""

    def __len__(self) -> int:
        return len(self._index)

    def look(self, query: str, limit: int, seconds: float | None = None) -> FoundPaths:
        """The best matches found within `seconds`. Repeating the same query continues its search."""
        index = self._index
        found = index.start(query.removeprefix("./"))
        found.work(seconds)
        matches = found.matches(limit, None if self._context.hides is None else self._is_hidden)
        return FoundPaths(matches, found.is_complete and self._is_listed, len(index), self._is_cut)

    def start(self) -> None:
        """List the files again in the background; does nothing while a listing is running."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = start_task(self.refresh(), name="file index")

    async def refresh(self) -> None:
        began = time.monotonic()
        listing = PathListing(self._prefix)
        if not self._is_listed:
            # The first listing answers while it grows, later ones when they are complete.
            self._index = listing.index
        with AbortController() as controller:
            found = await list_files(
                self._root, self._context, controller.signal, take=listing.take, seconds=_TIME_LIMIT
            )
        self.listing_seconds = time.monotonic() - began
        if self._is_listed and found.error and not len(listing.index):
            return
        self._index, self._is_listed, self._is_cut = listing.index, True, found.more or found.timed_out

    async def aclose(self) -> None:
        if self._refreshing is not None:
            await cancel_and_wait([self._refreshing])

    def _is_hidden(self, path: str) -> bool:
        """Whether a rule hides a file, or every file in a folder."""
        assert self._context.hides is not None
        full = self._prefix + path
        return self._context.hides(full) or (path.endswith("/") and self._context.hides(full + "*"))


class PathListing:
    """Adds listed files and their folders to a new index."""

    def __init__(self, prefix: str) -> None:
        self.index = PathIndex()
        self._prefix = prefix
        self._folders: set[str] = set()

    def take(self, block: bytes) -> bool:
        """Add absolute paths, each followed by a NUL byte. Returns False if the index is full. For a thread."""
        text = block.decode("utf-8", "surrogateescape")
        names = text.removeprefix(self._prefix).replace("\0" + self._prefix, "\0").split("\0")
        if not "".join(names).isprintable():
            # A name that is not printable text cannot be typed, shown or sent.
            names = [name for name in names if name.isprintable()]
        self.index.add([*names, *self._new_folders(names)])
        return len(self.index) < MAX_PATHS and self.index.size < MAX_CHARACTERS

    def _new_folders(self, names: Iterable[str]) -> set[str]:
        parents = {name[: name.rfind("/") + 1] for name in names} - self._folders
        found = with_folders(parents) - self._folders
        self._folders |= found
        return found


def with_folders(files: Iterable[str]) -> set[str]:
    """The files and all their parent folders, with a slash at the end."""
    found: set[str] = set()
    for path in files:
        found.add(path)
        end = path.rfind("/")
        while end > 0 and path[: end + 1] not in found:
            found.add(path[: end + 1])
            end = path.rfind("/", 0, end)
    return found
