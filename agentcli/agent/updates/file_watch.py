"""Watch files between submissions, to notify the user of changes without polling.

Only a convenience in an idle session: before each request `ChangedFiles` does its own exact check. Only the folders of
files that the model has seen are watched, not recursively.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from agentcli.agent.updates.changed_files import ChangedFiles
from agentcli.core.aio import in_thread
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import ToolContext
from agentcli.tools.builtin import shown_path

MOST_FOLDERS = 200
"""Maximum watched folders, the latest ones; systems allow a user some thousand watches in all programs."""
_COALESCED_MILLISECONDS = 400
_STEP_MILLISECONDS = 200
"""Polling step of the library, whose default of 50 would wake the process twenty times a second."""
_MOST_NAMED = 3


async def wait_for_changes(changed: ChangedFiles, context: ToolContext, without: Collection[str] = ()) -> list[str]:
    """Wait for unreported changes to files that the model has seen, and return their paths. For use between
    submissions; cancel it when one begins. Never returns where nothing can be watched. `without`: files to ignore."""
    known = frozenset(context.read_cache.paths()).difference(without)
    folders = await in_thread(_folders, context)
    if folders:
        found = [path for path in await changed.peek(context) if path not in without]
        if found:
            return found
        found = await _watched(changed, context, folders, known)
        if found:
            return found
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def _watched(
    changed: ChangedFiles, context: ToolContext, folders: Sequence[str], known: frozenset[str]
) -> list[str]:
    from watchfiles import awatch

    stop = asyncio.Event()
    batches = awatch(
        *folders,
        watch_filter=lambda _change, path: path in known,
        debounce=_COALESCED_MILLISECONDS,
        step=_STEP_MILLISECONDS,
        stop_event=stop,
        recursive=False,
        ignore_permission_denied=True,
    )
    try:
        async for _batch in batches:
            # A background command of ours, or a write without a change, is not reported.
            if found := [path for path in await changed.peek(context) if path in known]:
                return found
    except (OSError, RuntimeError):
        # A missing folder, too many watches, or a file system without support.
        return []
    finally:
        stop.set()
        await batches.aclose()
    return []


def _folders(context: ToolContext) -> list[str]:
    latest_first = reversed(context.read_cache.paths())
    folders = list(dict.fromkeys(path.rpartition("/")[0] or "/" for path in latest_first))[:MOST_FOLDERS]
    # A missing folder would make watching the others fail.
    return [folder for folder in folders if Path(folder).is_dir()]


def changed_notice(paths: Sequence[str], context: ToolContext) -> str:
    """Notice for the user about changed files."""
    names = ", ".join(plain_line(shown_path(path, context), 60) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
    return f"Changed since the model saw it: {names}{more}. The model gets the changes with your next prompt."
