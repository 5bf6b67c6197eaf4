"""Index of the files and folders below a root, for path completion while typing (`@src/eng`).

`PathIndex` searches paths fuzzily, fast enough for every keystroke in a tree of a million files: they are kept as text,
some thousand in one string (a chunk), and their names in another, which takes hardly more memory than their characters.
A search goes through the chunks in short steps, has its best matches ready at any time, and continues where it stopped,
also over paths that were added meanwhile. A longer query searches only the matches of its beginning.

`FileIndex` keeps a `PathIndex` up to date from ripgrep's file list. File contents are never read.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate, chain, compress, islice, repeat
from operator import contains

from agentcli.core.abort import AbortController
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.text.fuzzy import best_match, folded, is_case_sensitive
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.tools.base import ToolContext
from agentcli.tools.search.ripgrep import list_files

CHUNK_PATHS = 4_000
_MAX_QUERY_LENGTH = 200
_MAX_SCORED = 200
"""Matches that are all scored. Of more, only some of each kind are: the path is among them, or needs another letter."""
_MAX_OF_A_KIND = 60
_SMALL_CHUNK = 100
"""Matches of one chunk that are collected for a larger one instead of making a chunk of their own."""
_MAX_NARROWED = 5_000
"""Matches that a search keeps, so that a longer query searches only them."""
_MAX_SEARCHES = 4
"""Searches that are kept."""
_ANY_LENGTH = sys.maxsize
_FOLDERS = lazy_pattern(r"^[^\n]*/(?=[^\n])", re.MULTILINE)
_TURN_SECONDS = 0.002
"""Time after which other threads get a turn."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Match:
    path: str
    """Relative to the root; a folder ends with a slash."""
    positions: tuple[int, ...]
    score: int


class _Chunk:
    """Some thousand paths as text, shorter ones first: either all with capital letters or all without."""

    __slots__ = ("_counts", "_ends", "_lengths", "count", "folded", "names", "paths")

    def __init__(self, paths: Sequence[str], lower: Sequence[str] | None = None) -> None:
        self.count = len(paths)
        self.paths = "\n".join(paths)
        self.folded = self.paths if lower is None else "\n".join(lower)
        self.names = _FOLDERS.sub("", self.folded)
        """The last component of each path, folded."""
        lengths = list(map(len, paths))
        sums = list(accumulate(lengths))
        self._lengths = sorted(set(lengths))
        self._counts = [bisect_right(lengths, length) for length in self._lengths]
        self._ends = [sums[count - 1] + count - 1 for count in self._counts]
        """For each of `_lengths`: where the last path of at most that length ends in `paths` and `folded`."""

    @property
    def has_capitals(self) -> bool:
        return self.folded is not self.paths

    @property
    def size(self) -> int:
        return len(self.paths) + len(self.names) + (len(self.folded) if self.has_capitals else 0)

    def end_of(self, length: int) -> int:
        """Where the last path of at most this length ends in `paths` and `folded`."""
        at = bisect_right(self._lengths, length)
        return self._ends[at - 1] if at else 0

    def count_up_to(self, length: int) -> int:
        """Number of paths of at most this length."""
        at = bisect_right(self._lengths, length)
        return self._counts[at - 1] if at else 0


class _ShortestMatches:
    """The shortest matches of one kind, such as paths whose name starts with the query."""

    def __init__(self, most: int = _MAX_OF_A_KIND) -> None:
        self._most = most
        self._paths: list[str] = []
        self.longest = _ANY_LENGTH
        """Length beyond which paths need not be looked at."""

    def add(self, paths: Iterable[str]) -> None:
        self._paths += islice(paths, self._most)
        if len(self._paths) >= self._most * (2 if self.longest == _ANY_LENGTH else 1.2):
            self._paths = self.shortest
            self.longest = len(self._paths[-1])

    @property
    def shortest(self) -> list[str]:
        found = sorted(self._paths)
        found.sort(key=len)
        return found[: self._most]


def _chunks(paths: list[str]) -> list[_Chunk]:
    """Sort paths and make chunks of them, one with capital letters and one without."""
    # Of two equally good paths the shorter one comes first.
    paths.sort()
    paths.sort(key=len)
    lower = "\n".join(paths).lower().split("\n") if "\n".join(paths).isascii() else [folded(path) for path in paths]
    if lower == paths:
        return [_Chunk(paths)]
    plain = [path for path, low in zip(paths, lower, strict=True) if path == low]
    capital = [(path, low) for path, low in zip(paths, lower, strict=True) if path != low]
    found = [_Chunk([path for path, _low in capital], [low for _path, low in capital])]
    return [_Chunk(plain), *found] if plain else found


class PathIndex:
    """All paths of a tree. Paths are only added; one thread may add while another searches."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._chunks: list[_Chunk] = []
        self._searches: dict[str, PathSearch] = {}
        """The newest searches by their queries, the newest last."""
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
        fitting = [path for path in paths if path and "\n" not in path]
        if fitting:
            made = _chunks(fitting)
            self._count += len(fitting)
            self.size += sum(chunk.size for chunk in made)
            self._chunks += made

    def search(self, query: str, limit: int = 50) -> list[Match]:
        """The best matches of all paths, best first; for an empty query the shortest paths."""
        found = self.start(query)
        found.work()
        return found.matches(limit)

    def start(self, query: str) -> PathSearch:
        """Start a search, or continue an earlier one for the same query; `PathSearch.work` does it."""
        query = query[:_MAX_QUERY_LENGTH]
        found = self._searches.pop(query, None)
        if found is None or found.covered not in (None, len(self._chunks)):
            among = self._matches_of_beginning(query)
            found = PathSearch(query, self._chunks) if among is None else PathSearch(query, among, len(self._chunks))
        self._searches[query] = found
        while len(self._searches) > _MAX_SEARCHES:
            del self._searches[next(iter(self._searches))]
        return found

    def _matches_of_beginning(self, query: str) -> Sequence[_Chunk] | None:
        """All matches of the longest beginning of the query that was searched completely; None for none."""
        for end in range(len(query) - 1, 0, -1):
            earlier = self._searches.get(query[:end])
            if earlier is not None and earlier.covered in (None, len(self._chunks)) and earlier.is_complete:
                matches = earlier.all_matches()
                if matches is not None:
                    return matches
        return None


class PathSearch:
    """The search for one query, in all chunks of the index or in the matches of its beginning. For one thread."""

    def __init__(self, query: str, chunks: Sequence[_Chunk], covered: int | None = None) -> None:
        """`covered`: if `chunks` are matches of a beginning, how many chunks of the index they come from; None:
        `chunks` are those of the index, which may grow."""
        self.covered = covered
        self._query = query
        self._chunks = chunks
        self._exact = is_case_sensitive(query)
        self._match = re.compile("".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in query), re.DOTALL).match
        self._chunks_for_substring = 0
        """Number of chunks that were searched for the query as a substring."""
        self._chunks_for_letters = 0
        """Number of chunks that were searched for its letters."""
        self._substrings, self._in_names = _ShortestMatches(), _ShortestMatches()
        self._at_starts, self._after_slashes = _ShortestMatches(), _ShortestMatches()
        self._letters, self._letters_of_names = _ShortestMatches(_MAX_SCORED + 1), _ShortestMatches()
        self._is_name = "/" not in query
        if not self._is_name:
            for kind in (self._in_names, self._at_starts, self._letters_of_names):
                kind.longest = 0
        self._all: list[_Chunk] | None = []
        """All matches so far; None when there are too many."""
        self._count = 0
        """Number of matches so far."""
        self._waiting: list[str] = []
        """Matches that are not in a chunk of `_all` yet."""
        self._total = 0
        """Number of paths in all chunks when `work` began."""
        self._searched = 0
        """Number of paths that were searched for letters."""

    @property
    def is_complete(self) -> bool:
        return not self._query or "\n" in self._query or self._chunks_for_letters == len(self._chunks)

    def work(self, seconds: float | None = None, clock: Clock = time.perf_counter) -> None:
        """Continue for at most `seconds`: first search for the query as a substring, then for its letters in order."""
        began = turn = clock()
        self._total = sum(chunk.count for chunk in self._chunks)
        while not self.is_complete:
            if self._chunks_for_substring < len(self._chunks):
                self._search_substring(self._chunks[self._chunks_for_substring])
                self._chunks_for_substring += 1
            else:
                self._search_letters(self._chunks[self._chunks_for_letters])
                self._chunks_for_letters += 1
            if seconds is None:
                continue
            now = clock()
            if now - began >= seconds:
                return
            if now - turn >= _TURN_SECONDS:
                # Otherwise the event loop waits five milliseconds for the interpreter lock at each of its steps.
                time.sleep(0.0002)
                turn = clock()

    def matches(self, limit: int, is_hidden: Callable[[str], bool] | None = None) -> list[Match]:
        """The best matches so far, best first, without hidden paths."""
        found = (match for match in self._ranked(limit) if is_hidden is None or not is_hidden(match.path))
        return list(islice(found, limit))

    def _ranked(self, limit: int) -> list[Match]:
        if not self._query:
            most = max(limit, _MAX_SCORED)
            shortest = chain.from_iterable(islice(chunk.paths.split("\n", most), most) for chunk in self._chunks)
            return [Match(path, (), 0) for path in nsmallest(most, shortest, key=lambda path: (len(path), path))]
        scored: list[tuple[int, int, str, Match]] = []
        for path in self._candidates():
            found = best_match(self._query, path, path if self._exact else folded(path))
            if found is not None:
                scored.append((-found.score, len(path), path, Match(path, found.positions, found.score)))
        scored.sort(key=lambda each: each[:3])
        return [match for _score, _length, _path, match in scored]

    def all_matches(self) -> Sequence[_Chunk] | None:
        """All matches of a complete search; None if they are too many."""
        if self._all is not None and self._waiting:
            self._all += _chunks(self._waiting)
            self._waiting = []
        return self._all

    def _candidates(self) -> Iterable[str]:
        """All matches if they are few, else some of each kind that users usually mean."""
        letters = self._letters.shortest
        if len(letters) <= _MAX_SCORED and self.is_complete:
            return letters
        kinds = (self._substrings, self._in_names, self._at_starts, self._after_slashes, self._letters_of_names)
        return dict.fromkeys((*letters[:_MAX_OF_A_KIND], *chain.from_iterable(kind.shortest for kind in kinds)))

    def _compared(self, chunk: _Chunk) -> str:
        """The text of a chunk to compare the query with; "" if it cannot match."""
        if not self._exact:
            return chunk.folded
        return chunk.paths if chunk.has_capitals else ""

    def _search_substring(self, chunk: _Chunk) -> None:
        """Find paths that contain the query; separately those with it in the name or at its start, as users mean it."""
        query, text = self._query, self._compared(chunk)
        if query not in text:
            return
        self._substrings.add(_paths_with(query, chunk, text, self._substrings.longest))
        self._after_slashes.add(_paths_with("/" + query, chunk, text, self._after_slashes.longest))
        if self._is_name and (self._exact or query in chunk.names):
            self._in_names.add(self._named(chunk, self._in_names.longest, contains, query))
            if self._exact or chunk.names.startswith(query) or "\n" + query in chunk.names:
                self._at_starts.add(self._named(chunk, self._at_starts.longest, str.startswith, query))

    def _named(self, chunk: _Chunk, longest: int, fits: Callable[..., object], *more: str) -> Iterator[str]:
        """The paths of a chunk for whose names `fits(name, *more)` is true, the shortest first."""
        count = chunk.count_up_to(longest)
        names = (_FOLDERS.sub("", chunk.paths) if self._exact else chunk.names).split("\n", count)
        hits = map(fits, names, *map(repeat, more))
        numbers = list(islice(compress(range(count), hits), _MAX_OF_A_KIND))
        if numbers:
            paths = chunk.paths.split("\n", numbers[-1] + 1)
            yield from (paths[number] for number in numbers)

    def _search_letters(self, chunk: _Chunk) -> None:
        """Find paths that contain the letters of the query in order, anywhere or in their names."""
        match, text = self._match, self._compared(chunk)
        self._searched += chunk.count
        if not all(char in text for char in self._query):
            return
        if self._is_name and self._all is None:
            self._letters_of_names.add(self._named(chunk, self._letters_of_names.longest, match))
        end = chunk.end_of(self._letters.longest if self._all is None else _ANY_LENGTH)
        lines = text[:end].split("\n")
        if self._exact or not chunk.has_capitals:
            paths = lines = list(filter(match, lines))
        else:
            hits = list(map(match, lines))
            paths, lines = list(compress(chunk.paths[:end].split("\n"), hits)), list(compress(lines, hits))
        self._letters.add(paths)
        if self._all is not None:
            if self._is_name:
                both = zip(paths, lines, strict=True)
                self._letters_of_names.add(path for path, line in both if match(line, line.rfind("/", 0, -1) + 1))
            self._keep(paths, lines, is_folded=chunk.has_capitals)

    def _keep(self, paths: list[str], lines: list[str], *, is_folded: bool) -> None:
        """Keep matches for longer queries, unless there will be too many. `lines`: as they were compared."""
        assert self._all is not None
        self._count += len(paths)
        if self._count * self._total > _MAX_NARROWED * self._searched:
            self._all, self._waiting = None, []
        elif len(paths) < _SMALL_CHUNK or (is_folded and self._exact):
            self._waiting += paths
            if len(self._waiting) >= CHUNK_PATHS:
                self._all += _chunks(self._waiting)
                self._waiting = []
        else:
            # Matches of one chunk are in its order, so they need not be sorted again.
            self._all.append(_Chunk(paths, lines if is_folded else None))


def _paths_with(piece: str, chunk: _Chunk, text: str, longest: int) -> Iterator[str]:
    """The paths of a chunk, up to a length, whose lines in `text` contain `piece`; the shortest first."""
    end = chunk.end_of(longest)
    at = text.find(piece, 0, end)
    while at >= 0:
        stop = text.find("\n", at, end)
        stop = end if stop < 0 else stop
        yield chunk.paths[text.rfind("\n", 0, at) + 1 : stop]
        at = text.find(piece, stop, end)


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

    def search(self, query: str, limit: int = 50) -> list[Match]:
        """The best matches of all listed paths."""
        return self.look(query, limit).matches

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
