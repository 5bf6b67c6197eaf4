"""Index of the files and folders below a root, for completing paths while typing (`@src/eng`).

`PathIndex` is the search: fast enough for every keystroke in a tree of 100,000 files. `FileIndex` keeps one up to date
from ripgrep's file list. File contents are never read.
"""

from __future__ import annotations

import asyncio
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress

from agentcli.core.abort import AbortController
from agentcli.core.aio import cancel_and_wait, in_thread
from agentcli.core.fuzzy import best_match, folded, is_case_sensitive
from agentcli.tools.base import ToolContext
from agentcli.tools.search.ripgrep import list_files

MOST_PATHS = 500_000
_LONGEST_QUERY = 200
_ENOUGH = 200
"""After this many matches the search stops: the wanted path is on the first screen or needs another letter."""
_ENOUGH_OF_A_KIND = 60
_MOST_REMEMBERED = 256
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PREPARED = "abcdefghijklmnopqrstuvwxyz0123456789._-/"


@dataclass(frozen=True, slots=True)
class Match:
    path: str
    """Relative to the root; a folder ends with a slash."""
    positions: tuple[int, ...]
    score: int


class _Texts:
    """A list of texts that can be searched together: for a substring, or for texts with certain characters."""

    def __init__(self, texts: list[str], lower: _Texts | None = None) -> None:
        self.texts = texts
        self._lower = lower
        self._joined = "\n" + "\n".join(texts) + "\n"
        self._starts = [0, *accumulate(len(text) + 1 for text in texts)]
        self._having: dict[str, int] = {}

    def containing(self, piece: str, most: int) -> list[int]:
        """The first `most` texts with this substring; a leading line break means the start of a text."""
        found: list[int] = []
        position = self._joined.find(piece)
        while position >= 0 and len(found) < most:
            index = bisect_right(self._starts, position if piece[0] == "\n" else position - 1) - 1
            found.append(index)
            position = self._joined.find(piece, self._starts[index + 1])
        return found

    def in_order(self, query: str, most: int, among: Sequence[int] | None = None) -> list[int]:
        """The first `most` texts with all these characters in this order, of all texts or of `among`."""
        match = re.compile("".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in query), re.DOTALL).match
        texts = self.texts
        found: list[int] = []
        for index in self._with_characters(query) if among is None else among:
            if match(texts[index]):
                found.append(index)
                if len(found) == most:
                    break
        return found

    def prepare(self, characters: Iterable[str]) -> None:
        for char in characters:
            self._selector(char)

    def _with_characters(self, query: str) -> Iterable[int]:
        both = -1
        for char in set(query):
            # If case matters, the lower-case result is a superset that is already known.
            side = self if self._lower is None or char != folded(char) else self._lower
            both &= side._selector(char)
        size = len(self.texts)
        return compress(range(size), both.to_bytes(size, "little"))

    def _selector(self, char: str) -> int:
        """One byte per text, 1 if it has the character; as an integer, so that several combine in one step."""
        if char not in self._having:
            # One scan of everything is much faster than one scan per text.
            flags = bytes([char in text for text in self.texts]) if char in self._joined else b""
            self._having[char] = int.from_bytes(flags, "little")
        return self._having[char]


class PathIndex:
    """Immutable except for its search cache. Not thread-safe."""

    def __init__(self, paths: Iterable[str]) -> None:
        # Of two equally good paths the shorter one comes first, so an early stop has seen the better ones.
        self._paths = sorted((path for path in paths if path and "\n" not in path), key=lambda path: (len(path), path))
        lower = [folded(path) for path in self._paths]
        self._lower = _Texts(lower)
        self._lower_names = _Texts([_name(path) for path in lower])
        self._exact = (
            _Texts(self._paths, self._lower),
            _Texts([_name(path) for path in self._paths], self._lower_names),
        )
        self._complete: dict[str, list[int]] = {}
        """All matches of a query, for longer queries that start with it."""

    def __len__(self) -> int:
        return len(self._paths)

    def prepare(self) -> None:
        """Build the tables that would slow down the first searches."""
        self._lower.prepare(_PREPARED)
        self._lower_names.prepare(_PREPARED)
        for side in self._exact:
            side.prepare(_CAPITALS)

    def search(self, query: str, limit: int = 50) -> list[Match]:
        """The best matches, best first; for an empty query the shortest paths."""
        query = query[:_LONGEST_QUERY]
        if not query:
            return [Match(path, (), 0) for path in self._paths[:limit]]
        if "\n" in query:
            return []
        paths, names = self._exact if is_case_sensitive(query) else (self._lower, self._lower_names)
        matches: list[tuple[int, int, Match]] = []
        for index in self._candidates(query, paths, names):
            found = best_match(query, self._paths[index], paths.texts[index])
            if found is not None:
                matches.append((-found.score, index, Match(self._paths[index], found.positions, found.score)))
        matches.sort(key=lambda each: each[:2])
        return [match for _score, _index, match in matches[:limit]]

    def _candidates(self, query: str, paths: _Texts, names: _Texts) -> Iterable[int]:
        """All matches if they are few, else some of each kind that users usually mean."""
        matching = self._matching(query, paths)
        if len(matching) <= _ENOUGH:
            return matching
        found = dict.fromkeys(matching[:_ENOUGH_OF_A_KIND])
        whole = paths.containing(query, _ENOUGH_OF_A_KIND)
        found |= dict.fromkeys(whole)
        if len(whole) == _ENOUGH_OF_A_KIND:
            # There are more matches, and these are only the shortest: prefer better positions.
            found |= dict.fromkeys(names.containing("\n" + query, _ENOUGH_OF_A_KIND))
            found |= dict.fromkeys(names.containing(query, _ENOUGH_OF_A_KIND))
            found |= dict.fromkeys(paths.containing("/" + query, _ENOUGH_OF_A_KIND))
        if len(query) > 1:
            found |= dict.fromkeys(names.in_order(query, _ENOUGH_OF_A_KIND))
        return found

    def _matching(self, query: str, paths: _Texts) -> list[int]:
        """The first matches; more than `_ENOUGH` means that there may be others."""
        known = next((query[:end] for end in range(len(query), 0, -1) if query[:end] in self._complete), None)
        if known == query:
            return self._complete[query]
        # A query with an upper-case letter is compared with other texts than its lower-case prefix.
        narrowed = None if known is None or is_case_sensitive(query) else self._complete[known]
        found = paths.in_order(query, _ENOUGH + 1, narrowed)
        if len(found) <= _ENOUGH:
            if len(self._complete) > _MOST_REMEMBERED:
                self._complete.clear()
            self._complete[query] = found
        return found


def _name(path: str) -> str:
    return path[path.rfind("/", 0, len(path) - 1) + 1 :]


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


class FileIndex:
    """Answers immediately from the last finished listing; empty before the first. Call `aclose` at the end."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        # Not the shell's directory: a typed path means the same during the whole session.
        self._root = str(context.working_dirs[0])
        self._index = PathIndex(())
        self._refreshing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._index)

    def search(self, query: str, limit: int = 50) -> list[Match]:
        return self._index.search(query.removeprefix("./"), limit)

    def start(self) -> None:
        """List the files again in the background; does nothing while a listing is running."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self.refresh(), name="file index")

    async def refresh(self) -> None:
        with AbortController() as controller:
            found = await list_files(self._root, self._context, controller.signal, most=MOST_PATHS)
        if found.error and not found.lines:
            return
        self._index = await in_thread(_built, found.lines, self._root, self._context.hides)

    async def aclose(self) -> None:
        if self._refreshing is not None:
            await cancel_and_wait([self._refreshing])


def _built(lines: list[bytes], root: str, hides: Callable[[str], bool] | None) -> PathIndex:
    prefix = root.rstrip("/") + "/"
    names = [os.fsdecode(line).removeprefix(prefix) for line in lines]
    if hides is not None:
        names = [name for name in names if not hides(prefix + name)]
    # A name that is not text cannot be typed, shown or sent.
    index = PathIndex(path for path in with_folders(names) if path.isprintable())
    index.prepare()
    return index
