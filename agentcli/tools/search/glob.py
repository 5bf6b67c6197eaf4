"""Glob: files by name, newest first. Files ignored by .gitignore stay hidden for every pattern.

So the pattern is matched here and not by ripgrep, whose globs override ignore files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.globs import LONGEST_PATTERN, glob_regex, has_magic
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.plaintext import spell_hidden, visible_text
from agentcli.core.plural import counted, plural
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

MOST_SHOWN = 100
_MOST_LISTED = 200_000


class Glob(BuiltinTool):
    name = "Glob"
    subject = "pattern"
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
        if max(len(input["pattern"]), len(input.get("path") or "")) > LONGEST_PATTERN:
            return f"The pattern or path has more than {LONGEST_PATTERN:,} characters, which no path has."
        fine = is_encodable(f"{input['pattern']}{input.get('path')}")
        return None if fine else "The pattern contains characters that no file name can have."

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        base, pattern = _split(input, context)
        if not await in_thread(os.path.isdir, base):
            yield failure(f"{shown_path(base, context)} is not a directory. Relative paths start at {context.root}.")
            return
        found = await list_files(base, context, signal, most=_MOST_LISTED)
        if signal.aborted:
            yield failure("The search was stopped.", summary="stopped")
            return
        if found.error and not found.lines:
            yield failure(visible_text(found.error))
            return
        names = await in_thread(_newest_first, found.lines, base, pattern, context.hides, lambda: signal.aborted)
        if signal.aborted:
            yield failure("The search was stopped.", summary="stopped")
        elif names:
            yield _shown(names, context, found, int(input.get("offset") or 0), base)
        else:
            yield _nothing(pattern, await in_thread(ignored_note, base), found, _searched(base, context))


def _split(input: Json, context: ToolContext) -> tuple[str, str]:
    """The folder to search and the pattern relative to it; literal folders of a pattern belong to the former."""
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


def _newest_first(
    lines: list[bytes], base: str, pattern: str, hides: Callable[[str], bool] | None, stopped: Callable[[], bool]
) -> list[str]:
    expression = re.compile(glob_regex(pattern), re.DOTALL)
    prefix = base.rstrip("/") + "/"
    dated: list[tuple[float, str]] = []
    for line in lines:
        if stopped():
            break
        path = os.fsdecode(line)
        if path and expression.fullmatch(path.removeprefix(prefix)) and not (hides and hides(path)):
            try:
                dated.append((-os.lstat(path).st_mtime, path))
            except OSError:
                continue
    return [path for _time, path in sorted(dated)]


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


def _shown(names: list[str], context: ToolContext, found: RipgrepResult, offset: int, base: str) -> Output:
    incomplete = found.more or found.timed_out
    page = [os.fsencode(name_below(name, context)) for name in names[offset : offset + MOST_SHOWN]]
    shown = [visible_text(name.decode(errors="replace")).replace("\n", "\u240a") for name in page]
    text = "\n".join(shown) if shown else f"No files past offset {offset}; {len(names):,} match."
    following = offset + len(shown)
    if len(names) > following:
        more = f"{counted(len(names) - following, 'more file')} match"
        text += f"\n\n[{more}. Continue with offset {following}, or narrow the pattern.]"
    if incomplete:
        text += "\n\n[The search was cut short by its limits; there may be more. Narrow the path or the pattern.]"
    count = f"{len(names):,}{'+' if incomplete else ''} {plural(len(names), 'file')}"
    return Output(
        text + _searched(base, context),
        summary=count,
        display={
            "kind": "matches",
            "mode": "files_with_matches",
            "text": spell_hidden(text),
            "rows": [{"path": spell_hidden(name)} for name in shown],
        },
        structured={"filenames": shown},
    )
