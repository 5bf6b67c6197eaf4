"""Whose change it was: tells what the user did to files between two snapshots from what a call may have done.

There is no telling which process wrote a file. What is known is when it changed, and which files a call can change.
Reads trees; changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from agentcli.workspace.base import Snapshot
from agentcli.workspace.journal import UserChanges
from agentcli.workspace.listing import is_ignore_file
from agentcli.workspace.shadow import Shadow


async def users_changes(
    shadow: Shadow,
    before: Snapshot,
    after: Snapshot,
    forced: Collection[str],
    among: Collection[str] | None,
    except_below: Sequence[str] | None,
) -> UserChanges:
    """What the user changed. `forced` are paths that snapshots have because a call named them; `among`: only these
    files can be the user's; `except_below`: these paths (absolute) and what is below them cannot."""
    changes = UserChanges()
    found = await shadow.compare(before.tree, after.tree)
    # An ignored file is in snapshots only from the call on that names it: it was there before.
    appeared = [path for path, one in found.items() if path in forced and not one.before.exists]
    hidden = await shadow.ignored(appeared)
    not_theirs = _relative(shadow, except_below or ())
    if except_below is not None and any(is_ignore_file(path) for path in found):
        # A call changed what is ignored: files that were there all along come into sight.
        hidden |= {path for path, one in found.items() if not one.before.exists}
    for path, one in found.items():
        if path in hidden or path in before.uncovered or path in after.uncovered or before.is_foreign(path):
            continue
        if (among is None or path in among) and not _is_below(path, not_theirs):
            changes.files[path] = (one.before, one.after)
    if among is None:
        changes.made = sorted(name for name in after.empty - before.empty if not _is_below(name, not_theirs))
        changes.gone = sorted(name for name in before.empty - after.empty if not _is_below(name, not_theirs))
    return changes


def _relative(shadow: Shadow, paths: Sequence[str]) -> list[str]:
    root = str(shadow.root)
    return [os.path.relpath(path, root) for path in paths]


def _is_below(path: str, others: Sequence[str]) -> bool:
    return any(other == "." or path == other or path.startswith(f"{other}/") for other in others)
