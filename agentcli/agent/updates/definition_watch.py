"""Notice changes of definition files in an idle interactive session, so that menus are up to date.

Nothing depends on it: every submission checks the files itself. The files are polled in a thread. A file watcher would
follow links inside the folders: for a skill that is a link into a large checkout it would block the event loop while
thousands of folders are registered.
"""

from __future__ import annotations

import asyncio

from agentcli.core.aio import in_thread
from agentcli.definitions.library import Library

_POLL_SECONDS = 1.0
_FIRST_SECONDS = 1.0
"""Delay of the first check, to keep the start of the app fast."""


async def wait_for_definitions(library: Library, version: int) -> None:
    """Wait until a definition or a problem has changed since this version, and load it. Cancel it."""
    await asyncio.sleep(_FIRST_SECONDS)
    while True:
        if await in_thread(library.refresh) or library.version != version:
            return
        await asyncio.sleep(_POLL_SECONDS)
