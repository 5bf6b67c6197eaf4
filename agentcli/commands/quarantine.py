"""/quarantine: list, restore or delete files that the sandbox moved out of working directories. Shared with the CLI."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime

from agentcli.agent.engine import Engine
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.text.plaintext import plain_line, terminal_line
from agentcli.sandbox.quarantine.store import Quarantine, QuarantinedItem

EMPTY = "Quarantine is empty."


async def run(_engine: Engine, arguments: str) -> str:
    """Files that a sandboxed command created and that other programs would run or obey, such as .envrc or a git hook,
    are moved here.

    /quarantine             list files with origin and reason
    /quarantine restore ID  restore a file
    /quarantine rm ID       delete a file
    """
    action, *ids = arguments.split() or ["list"]
    if action == "list" and not ids:
        return "\n".join(await asyncio.to_thread(listing, store(os.environ)))
    if action == "restore" and len(ids) == 1:
        return await asyncio.to_thread(restore, store(os.environ), ids[0])
    if action == "rm" and ids:
        return "\n".join(await asyncio.to_thread(remove, store(os.environ), ids))
    raise UsageError("/quarantine lists quarantined files. Also: /quarantine restore ID, /quarantine rm ID …")


def store(environ: Mapping[str, str]) -> Quarantine:
    """Open the quarantine. Raises `UsageError`, as do the functions below."""
    folder = Paths.from_environ(environ).quarantine_dir
    if folder is None:
        raise UsageError("There is no state folder: set HOME or AGENTCLI_STATE_DIR.")
    return Quarantine(folder)


def listing(quarantine: Quarantine) -> list[str]:
    lines: list[str] = []
    for item in quarantine.items():
        when = datetime.fromtimestamp(item.when, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        kind, reason = plain_line(item.kind, 20), plain_line(item.reason, 200)
        lines.append(f"{item.id}  {when}  {kind}  {terminal_line(item.path)}: {reason}")
        lines.append(f"    by: {plain_line(item.command, 300)}")
    return lines or [EMPTY]


def restore(quarantine: Quarantine, item_id: str) -> str:
    item = _item(quarantine, item_id)
    try:
        quarantine.restore(item)
    except FileExistsError:
        raise UsageError(f"{terminal_line(item.path)} exists. Move it away first.") from None
    except OSError as error:
        raise UsageError(f"{terminal_line(item.path)} could not be restored: {error.strerror}.") from error
    return f"Restored {terminal_line(item.path)}"


def remove(quarantine: Quarantine, item_ids: list[str]) -> list[str]:
    done = []
    for item in [_item(quarantine, item_id) for item_id in item_ids]:
        quarantine.remove(item)
        done.append(f"Deleted {terminal_line(item.path)} from quarantine")
    return done


def _item(quarantine: Quarantine, item_id: str) -> QuarantinedItem:
    item = quarantine.get(item_id)
    if item is None:
        raise UsageError(
            f"There is no item {plain_line(item_id, 80)} in quarantine. `agentcli quarantine list` shows all."
        )
    return item
