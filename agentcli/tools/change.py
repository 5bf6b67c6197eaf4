"""Changing one file, as Write and Edit both do it: locked, checked against what the model has seen, atomic.

The lock is held from reading the present content to having replaced it, so a second change of the same file sees
the first. What the file should become is the caller's business.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from agentcli.core.frozen import frozen
from agentcli.core.plaintext import visible_text
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.builtin import absolute_path, failure, in_thread, os_failure, shown_path
from agentcli.tools.diff import diff_display
from agentcli.tools.encoding import Decoded, decode
from agentcli.tools.files import LARGEST_LOADED, Refusal, inspect, load, near_names, replace_file
from agentcli.tools.readcache import Seen, digest_of


@frozen
class Present:
    """A file as it is now; `decoded` is None while it does not exist."""

    shown: str
    decoded: Decoded | None

    @property
    def text(self) -> str:
        return self.decoded.text if self.decoded else ""


@frozen
class Change:
    data: bytes
    text: str
    message: str


async def change_file(
    file_path: str, context: ToolContext, plan: Callable[[Present], Change | Output], *, whole: bool, create: bool
) -> Output:
    """Read the file, let `plan` say what becomes of it (in a thread), write that. An Output from `plan` ends it.

    `whole`: the model must have seen all of an existing file, because all of it is replaced.
    """
    path = absolute_path(file_path, context)
    shown = shown_path(path, context)
    # The link's target is what is replaced; permission was decided on both.
    real = await in_thread(os.path.realpath, path)
    async with context.read_cache.lock(real):
        try:
            present = await _present(real, shown, context, whole=whole, create=create)
            if isinstance(present, Output):
                return present
            change = await in_thread(plan, present)
            if isinstance(change, Output):
                return change
            name = f".{real.rpartition('/')[2][:100]}.{os.urandom(6).hex()}.tmp"
            await in_thread(replace_file, real, change.data, name)
        except OSError as error:
            return os_failure(error, f"{shown} cannot be written")
        context.read_cache.note_digest(real, await in_thread(digest_of, change.data))
    display = await in_thread(diff_display, shown, present.text, change.text)
    summary = f"+{display['added']} -{display['removed']}"
    return Output(change.message, summary=summary, display=display, structured={**display, "path": path})


async def _present(real: str, shown: str, context: ToolContext, *, whole: bool, create: bool) -> Present | Output:
    found = await in_thread(inspect, real, shown)
    if isinstance(found, Refusal):
        if found.missing and create:
            return Present(shown, None)
        if not found.missing:
            return failure(found.text)
        context.read_cache.forget(real)
        near = await in_thread(near_names, real)
        hint = (
            f" Did you mean {' or '.join(visible_text(name) for name in near)}?" if near else " Create it with Write."
        )
        return failure(f"{found.text}{hint}", summary="not found")
    if found.st_size > LARGEST_LOADED:
        return failure(f"{shown} is too large to be changed this way ({found.st_size:,} bytes). Use a command instead.")
    data = await load(real)
    seen = context.read_cache.seen(real)
    return await in_thread(_known, data, shown, seen, whole=whole)


def _known(data: bytes, shown: str, seen: Seen | None, *, whole: bool) -> Present | Output:
    problem = _unseen(data, shown, seen, whole=whole)
    if problem is not None:
        return failure(problem)
    decoded = decode(data)
    if decoded is None:
        return failure(f"{shown} is binary or in an unknown encoding; changing it as text would damage it.")
    return Present(shown, decoded)


def _unseen(data: bytes, shown: str, seen: Seen | None, *, whole: bool) -> str | None:
    if seen is None:
        return f"{shown} exists but has not been read yet. Read it first, then try again."
    if seen.digest != digest_of(data):
        return f"{shown} has changed since it was read, by somebody or something else. Read it again, then try again."
    if whole and not seen.whole:
        return f"Only a part of {shown} has been read. Read the rest before replacing all of it, or use Edit."
    return None
