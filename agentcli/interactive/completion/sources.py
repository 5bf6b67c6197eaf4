"""Sources of completions: project files, slash commands and their arguments.

The prompt knows only the protocols; `IndexedFiles` implements the one for files over the engine's index.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.base import Command
    from agentcli.tools.search.file_index import FileIndex

_FRESH_SECONDS = 3.0
_FRESH_FACTOR = 10
"""Files are not listed again for this many times the duration of the last listing: otherwise a huge tree would be
listed all the time."""
_FIRST_SECONDS = 0.05
"""Seconds that the first search waits for the listing. Most trees are listed by then, so that it is complete."""
_SLICE_SECONDS = 0.03
"""Seconds that one call may search; the next call continues."""


@frozen
class FileHit:
    path: str
    """Text after the `@`; a folder ends with a slash."""
    is_dir: bool = False
    """Whether more may be typed after it: a folder, or a resource template."""
    positions: tuple[int, ...] = ()
    """Indexes of the matching characters in `path`."""
    detail: str = ""
    """Short description of a resource of an MCP server."""


@frozen
class FoundFiles:
    hits: list[FileHit]
    is_complete: bool = True
    """False: repeating the query finds more."""
    note: str = ""
    """Remark on files that are not searched, or not yet."""


class FileSource(Protocol):
    async def files(self, query: str, limit: int) -> FoundFiles:
        """The best matches, best first. Called for one query at a time."""

    def begin(self) -> None:
        """The user starts to look for a file: a good moment to list the files again."""

    async def aclose(self) -> None: ...


CommandSource = Callable[[str], "Sequence[Command]"]
"""Maps the text after the slash to the matching commands, best first."""
ArgumentSource = Callable[[str], list[tuple[str, str]]]
"""Maps a command to its possible arguments, each with a short description; empty if there are none."""


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
    """Files of the engine's index, made on first use: a session without an `@` lists no files. `aclose` it."""

    def __init__(self, make_index: Callable[[], FileIndex], clock: Callable[[], float] = time.monotonic) -> None:
        self._make_index = make_index
        self._clock = clock
        self._index: FileIndex | None = None
        self._listed = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Held during a search: an index is for one thread at a time."""

    def begin(self) -> None:
        if self._index is None:
            self._index = self._make_index()
        elif self._clock() - self._listed < max(_FRESH_SECONDS, self._index.listing_seconds * _FRESH_FACTOR):
            return
        if self._listing is None or self._listing.done():
            self._listed = self._clock()
            self._listing = start_task(self._index.refresh(), name="files for the prompt")

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


ServerArguments = Callable[[str, str], Awaitable[list[tuple[str, str]]]]
"""Maps a command and its arguments typed so far to completed argument lines, each with a short description."""
LIMIT_SECONDS = 2.0
MAX_KEPT = 200


async def no_server_arguments(_command: str, _typed: str) -> list[tuple[str, str]]:
    return []


class ServerCompletions:
    """Never fails: without an answer in time there are no completions."""

    def __init__(self, engine: Callable[[], Engine | None], limit: float = LIMIT_SECONDS) -> None:
        self._engine = engine
        self._limit = limit
        self._known: dict[tuple[int, str, str], list[tuple[str, str]]] = {}
        """Cached completions by server version, command and typed text."""

    async def __call__(self, command: str, typed: str) -> list[tuple[str, str]]:
        engine = self._engine()
        if engine is None or engine.session.mcp is None:
            return []
        from agentcli.commands.registry import find
        from agentcli.mcp.connection import McpFailure

        row = find(command, engine)
        if row is None or row.completes_late is None:
            return []
        key = (engine.session.mcp.version, command, typed)
        if key in self._known:
            return self._known[key]
        try:
            async with asyncio.timeout(self._limit):
                values = await row.completes_late(typed)
        except (McpFailure, TimeoutError):
            values = []
        if len(self._known) >= MAX_KEPT:
            self._known.clear()
        self._known[key] = values
        return values
