"""Index of the files and folders below a root, for path completion while typing (`@src/eng`).

`FileIndex` keeps a `PathIndex` up to date from ripgrep's file list, and answers from the paths listed so far. File
contents are never read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from agentcli.core.abort import AbortController
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.tools.base import ToolContext
from agentcli.tools.search.path_index import Match, PathIndex
from agentcli.tools.search.ripgrep import list_files

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
