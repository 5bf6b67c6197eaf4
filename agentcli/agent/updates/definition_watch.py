"""Know in an idle interactive session that definition files were changed, so that menus show it soon.

Nothing depends on it: every submission looks at the files itself. The files are looked at again now and then, in a
thread. A watcher would follow links inside the folders: a skill that is a link into a large checkout would stop the
event loop while thousands of folders are registered.
"""

from __future__ import annotations

import asyncio

from agentcli.core.aio import in_thread
from agentcli.definitions.library import Library

_POLL_SECONDS = 1.0
_FIRST_SECONDS = 1.0
"""The start of the app does not wait for it."""


async def wait_for_definitions(library: Library, version: int) -> None:
    """Wait until a definition or a problem has changed since this version, and take it in. Cancel it."""
    await asyncio.sleep(_FIRST_SECONDS)
    while True:
        if await in_thread(library.refresh) or library.version != version:
            return
        await asyncio.sleep(_POLL_SECONDS)
