"""Glob: find files by name, newest first. Files ignored by .gitignore stay hidden for every pattern.

So the pattern is matched here and not by ripgrep, whose globs override ignore files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from heapq import nsmallest

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.format import counted, plural
from agentcli.core.text.globs import MAX_PATTERN, glob_regex, has_magic
from agentcli.core.text.plaintext import spell_hidden, visible_text
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import (
    BuiltinTool,
    absolute_path,
    failure,
    is_encodable,
    name_below,
    object_schema,
    shown_path,
)
from agentcli.tools.search.ripgrep import RipgrepResult, ignored_note, list_files

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
            yield failure(f"{shown_path(base, context)} is not a directory. Relative paths start at {context.root}.")
            return
        offset = int(input.get("offset") or 0)
        newest = NewestFiles(base, pattern, context.hides, lambda: signal.aborted, offset + MAX_SHOWN)
        found = await list_files(base, context, signal, take=newest.take)
        if signal.aborted:
            yield failure("The search was stopped.", summary="stopped")
        elif found.error and not newest.listed:
            yield failure(visible_text(found.error))
        elif newest.count:
            yield _shown(newest, context, found, offset, base)
        else:
            yield _nothing(pattern, await in_thread(ignored_note, base), found, _searched(base, context))


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


def _searched(base: str, context: ToolContext) -> str:
    folder = visible_text(context.launcher.inside(base)).replace("\n", "\u240a")
    return f"\n\n[Searched {folder}.]"


def _nothing(pattern: str, ignored: str, found: RipgrepResult, searched: str) -> Output:
    text = f"No files match {visible_text(pattern)}.{ignored}"
    text += " The search was cut short; narrow it." if found.more or found.timed_out else ""
    return Output(
        text + searched,
        summary="no files",
        display={"kind": "matches", "text": spell_hidden(text), "rows": []},
    )


def _shown(newest: NewestFiles, context: ToolContext, found: RipgrepResult, offset: int, base: str) -> Output:
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
        text + _searched(base, context),
        summary=summary,
        display={
            "kind": "matches",
            "mode": "files_with_matches",
            "text": spell_hidden(text),
            "rows": [{"path": spell_hidden(name)} for name in shown],
        },
        structured={"filenames": shown},
    )
