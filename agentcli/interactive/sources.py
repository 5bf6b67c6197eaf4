"""Where completions come from: files of the project, slash commands, and the choices that a command offers.

The protocols are all that the prompt knows; `IndexedFiles` is the real source of files, over the engine's index.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from agentcli.core.aio import cancel_and_wait
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.base import Command
    from agentcli.tools.search.file_index import FileIndex

_FRESH_SECONDS = 3.0
_FRESH_FACTOR = 10
"""Files are not listed again for so many times as long as it took: a huge tree would be listed all the time."""
_FIRST_SECONDS = 0.05
"""Most trees are listed by then, so that their first answer is complete."""
_SLICE_SECONDS = 0.03
"""How long one answer may search; the next one goes on."""


@frozen
class FileHit:
    path: str
    """As it is written after the `@`; a folder ends with a slash."""
    is_dir: bool = False
    """More may be typed behind it."""
    positions: tuple[int, ...] = ()
    detail: str = ""
    """A few words on a resource of an MCP server."""


@frozen
class FoundFiles:
    hits: list[FileHit]
    is_complete: bool = True
    """False: the same query asked again finds more."""
    note: str = ""
    """A few words on files that are not searched, or not yet."""


class FileSource(Protocol):
    async def files(self, query: str, limit: int) -> FoundFiles:
        """The best matches, best first. Asked for one query at a time."""

    def begin(self) -> None:
        """The user starts to look for a file: a good moment to list the files again."""

    async def aclose(self) -> None: ...


CommandSource = Callable[[str], "Sequence[Command]"]
"""The menu for what was typed behind the slash, best first."""
ArgumentSource = Callable[[str], list[tuple[str, str]]]
"""What may be typed behind a command's name: values, and a few words on each. Empty for all other commands."""


def registered_commands(typed: str, engine: Engine | None = None) -> Sequence[Command]:
    from agentcli.commands.registry import matching

    return matching(typed, engine)


def no_choices(_command: str) -> list[tuple[str, str]]:
    return []


async def all_files(source: FileSource, query: str, limit: int, seconds: float) -> FoundFiles:
    """The best matches after all files were searched, or after `seconds`."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    found = await source.files(query, limit)
    while not found.is_complete and clock() < end:
        await asyncio.sleep(_SLICE_SECONDS)
        found = await source.files(query, limit)
    return found


class NoFiles:
    async def files(self, query: str, limit: int) -> FoundFiles:
        return FoundFiles([])

    def begin(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class IndexedFiles:
    """Over the engine's index, which is made at first use: a session without an `@` lists no files. `aclose` it."""

    def __init__(self, make_index: Callable[[], FileIndex], clock: Callable[[], float] = time.monotonic) -> None:
        self._make_index = make_index
        self._clock = clock
        self._index: FileIndex | None = None
        self._listed = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """An index is for one thread at a time."""

    def begin(self) -> None:
        if self._index is None:
            self._index = self._make_index()
        elif self._clock() - self._listed < max(_FRESH_SECONDS, self._index.listing_seconds * _FRESH_FACTOR):
            return
        if self._listing is None or self._listing.done():
            self._listed = self._clock()
            self._listing = asyncio.get_running_loop().create_task(self._index.refresh(), name="files for the prompt")

    async def files(self, query: str, limit: int) -> FoundFiles:
        if self._index is None:
            self.begin()
        index, listing = self._index, self._listing
        assert index is not None
        async with self._turn:
            if not len(index) and listing is not None and not listing.done():
                await asyncio.wait({listing}, timeout=_FIRST_SECONDS)
            found = await asyncio.to_thread(index.look, query, limit, _SLICE_SECONDS)
        hits = [FileHit(match.path, match.path.endswith("/"), match.positions) for match in found.matches]
        if found.is_cut:
            return FoundFiles(hits, found.is_complete, f"only the first {found.listed:,} are searched")
        is_listing = listing is not None and not listing.done() and not found.is_complete
        return FoundFiles(hits, found.is_complete, f"listing, {found.listed:,} so far" if is_listing else "")

    async def aclose(self) -> None:
        if self._listing is not None:
            await cancel_and_wait([self._listing])
        if self._index is not None:
            await self._index.aclose()
