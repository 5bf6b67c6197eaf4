"""Wait for changes of configuration files: settings, hooks, MCP servers, definitions, plugins.

Only a convenience in an open session, so that menus and lists are up to date: every submission checks the files itself.
With inotify nothing wakes up while no file changes; without it, or with too many folders, the files are polled. A
library that watches recursively would follow links: for a skill that is a link into a large checkout it would block the
event loop while thousands of folders are registered.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.files.file_notices import FileNotices

POLL_SECONDS = 2.0
SETTLE_SECONDS = 0.1
"""Delay between a change and the check: editors save in several steps."""
_ANY = ""
"""Stands for all names in a folder."""


class ConfigWatch:
    """Call `watch`, then check the files, then `wait`: so no change is missed in between."""

    def __init__(self) -> None:
        self._notices: FileNotices | None = None
        self._is_complete = False
        """Whether every path is watched by inotify."""
        self._names: dict[str, set[str]] = {}
        """The names of interest in each watched folder."""
        self._stirred = asyncio.Event()

    async def watch(self, paths: Iterable[str]) -> None:
        """Watch these files and folders, whether they exist or not. A folder is not watched recursively."""
        await in_thread(self._watch, tuple(paths))

    def _watch(self, paths: Iterable[str]) -> None:
        names: dict[str, set[str]] = {}
        for path in paths:
            for folder, name in _places(path):
                names.setdefault(folder, set()).add(name)
        if self._notices is None:
            self._notices = FileNotices(removals=True)
        self._is_complete = self._notices.watch(names)
        self._names = names

    def wake(self) -> None:
        """Let `wait` return."""
        self._stirred.set()

    async def wait(self) -> None:
        """Wait until a watched path may have changed. Cancel it to stop."""
        descriptor = self._notices.descriptor if self._notices is not None else -1
        loop = asyncio.get_running_loop()
        if descriptor >= 0:
            loop.add_reader(descriptor, self._look)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._is_complete else POLL_SECONDS):
                    await self._stirred.wait()
        finally:
            if descriptor >= 0:
                loop.remove_reader(descriptor)
        self._stirred.clear()
        await asyncio.sleep(SETTLE_SECONDS)

    def _look(self) -> None:
        assert self._notices is not None
        if any(self._concerns(path) for path in self._notices.read()):
            self._stirred.set()

    def _concerns(self, path: Path) -> bool:
        names = self._names.get(str(path.parent), ())
        return str(path) in self._names or _ANY in names or path.name in names

    async def aclose(self) -> None:
        if self._notices is not None:
            await in_thread(self._notices.close)  # the kernel takes milliseconds for it


def _places(path: str) -> Iterator[tuple[str, str]]:
    """The folders to watch for a path, each with the name of interest in it."""
    if os.path.isdir(path):  # noqa: PTH112
        yield os.path.realpath(path), _ANY
    elif os.path.islink(path) and (real := os.path.realpath(path)) != path:  # noqa: PTH114
        yield from _places(real)
    folder, name = os.path.split(path)
    while folder and not os.path.isdir(folder):  # noqa: PTH112
        folder, name = os.path.split(folder)
        if not name:
            return
    yield os.path.realpath(folder), name
