"""Know in an idle interactive session that definition files were changed, so that menus show it at once.

Nothing depends on it: every submission looks at the files itself. Folders that exist are watched; for those that do not
exist yet, and where nothing can be watched, the disk is asked now and then.
"""

from __future__ import annotations

import asyncio

from agentcli.core.aio import in_thread
from agentcli.definitions.library import Library

_POLL_SECONDS = 2.0
_COALESCED_MILLISECONDS = 200
_STEP_MILLISECONDS = 100
_FIRST_SECONDS = 1.0
"""The start of the app does not wait for the watcher's import."""


async def wait_for_definitions(library: Library, version: int) -> None:
    """Wait until a definition or a problem has changed since this version, and take it in. Cancel it."""
    await asyncio.sleep(_FIRST_SECONDS)
    while not await in_thread(library.refresh) and library.version == version:
        folders = await in_thread(_existing, library)
        if not folders or not await _changed(folders):
            await asyncio.sleep(_POLL_SECONDS)


async def _changed(folders: list[str]) -> bool:
    """Wait for a change below the folders, or for the next poll; false where they cannot be watched."""
    from watchfiles import awatch

    stop = asyncio.Event()
    batches = awatch(
        *folders,
        debounce=_COALESCED_MILLISECONDS,
        step=_STEP_MILLISECONDS,
        rust_timeout=int(_POLL_SECONDS * 1_000),
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    )
    try:
        async for _batch in batches:
            return True
    except (OSError, RuntimeError):
        # A folder that is gone, too many watches, a file system that cannot be watched.
        return False
    finally:
        stop.set()
        await batches.aclose()
    return False


def _existing(library: Library) -> list[str]:
    return [str(folder) for folder in library.watched_folders() if folder.is_dir()]
