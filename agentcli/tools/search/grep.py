"""Grep: search file contents by regular expression, with ripgrep. Ordered by path, so that paging is stable."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line, spell_hidden, visible_text
from agentcli.tools.base import (
    MAX_PATH_LENGTH,
    BuiltinTool,
    Output,
    ToolContext,
    ToolRun,
    absolute_path,
    failure,
    is_encodable,
    object_schema,
    show_path,
)
from agentcli.tools.search.ripgrep import TIME_LIMIT, RipgrepResult, describe_ignored, search

DEFAULT_LIMIT = 250
_MAX_LINES = 20_000
_MAX_CHARACTERS = 40_000
_MAX_ROWS = 500
"""Maximum rows of the table for front ends."""
_MAX_LINE_LENGTH = 500
_COUNT = {"type": "integer", "minimum": 0}
_GLOB_TYPE = "agentcliglob"
_GLOB = re.compile(r"(?:\{[^}]*\}|\[[^\]]*\]|[^\s,])+")
"""One of several globs, divided by blanks or commas that are in no braces or brackets."""
_BINARY = re.compile(rb"(/.*): ((?:WARNING: stopped searching )?binary file (?:matches|after match).*)")
_NUMBERED = lazy_pattern(r"(\d+)([:-])(.*)", re.DOTALL)
"""Line number, whether the line matches, and its text."""


class Grep(BuiltinTool):
    name = "Grep"
    subject = "pattern"
    folder_field = "path"
    again = "Search again if you need it."
    explores = True
    input_schema = object_schema(
        ["pattern"],
        {
            "pattern": {"type": "string", "minLength": 1, "description": "A regular expression (ripgrep's syntax)"},
            "path": {"type": "string", "description": "A file or folder; default: the project's root"},
            "glob": {"type": "string", "description": "Only files like this: *.{ts,tsx}; several: *.py *.md !test_*"},
            "type": {"type": "string", "description": "Only files of this type, for example py, js, rust"},
            "output_mode": {"type": "string", "enum": ["files_with_matches", "content", "count"]},
            "-A": {**_COUNT, "description": "Lines after each match (content)"},
            "-B": {**_COUNT, "description": "Lines before each match (content)"},
            "-C": {**_COUNT, "description": "Lines around each match (content)"},
            "-n": {"type": "boolean", "description": "Line numbers (content; default true)"},
            "-i": {"type": "boolean", "description": "Ignore case"},
            "multiline": {"type": "boolean", "description": "Let a match span lines, and . match a line break"},
            "head_limit": {**_COUNT, "description": f"Show at most this many lines, default {DEFAULT_LIMIT}; 0: all"},
            "offset": {**_COUNT, "description": "Skip this many lines first"},
        },
    )

    def title(self, input: Json) -> str:
        where = f" in {input['path']}" if input.get("path") else ""
        return plain_line(f"Grep {input.get('pattern', '')}{where}")

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("read", absolute_path(input.get("path") or ".", context)),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if len(input.get("path") or "") > MAX_PATH_LENGTH:
            return f"The path has more than {MAX_PATH_LENGTH:,} characters, which no path has."
        text = f"{input['pattern']}{input.get('path')}{input.get('glob')}{input.get('type')}"
        return None if is_encodable(text) else "The input contains characters that cannot be searched for."

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        path = absolute_path(input.get("path") or ".", context)
        if not await in_thread(os.path.exists, path):
            yield failure(f"{show_path(path, context)} does not exist. Relative paths start at {context.root}.")
            return
        limit, offset = input.get("head_limit", DEFAULT_LIMIT) or _MAX_LINES, input.get("offset", 0)
        enough = min(limit + offset, _MAX_LINES)
        # A name may contain line breaks; it ends with a zero byte.
        separator = b"\0" if _mode(input) == "files_with_matches" else b"\n"
        found = await search(
            _arguments(input, path), context, signal, most=_MAX_LINES, enough=enough, separator=separator
        )
        if signal.aborted:
            yield failure("The search was stopped.", summary="stopped")
        elif found.error and not found.lines and not _unreadable(found):
            yield failure(_explain_error(found.error))
        else:
            yield await in_thread(_format, found, limit, offset, input, context, path)


@frozen
class _Line:
    """One line of the result: a file, a file and its count, or a line of a file."""

    path: str
    """Path for display; empty for the separator between two places in a file."""
    text: str = ""
    number: int = 0
    is_match: bool = True


def _mode(input: Json) -> str:
    return str(input.get("output_mode", "files_with_matches"))


def _arguments(input: Json, path: str) -> list[str]:
    mode = _mode(input)
    arguments = ["--sort=path", "--engine=auto"]
    if mode == "files_with_matches":
        arguments += ["--no-messages", "--files-with-matches", "--null"]
    elif mode == "count":
        arguments += ["--no-messages", "--count", "--with-filename", "--null"]
    else:
        arguments += [f"--max-columns={_MAX_LINE_LENGTH}", "--max-columns-preview", "--no-heading", "--with-filename"]
        arguments += ["--null", "--line-number"]
        arguments += [f"{flag}{input[flag]}" for flag in ("-A", "-B", "-C") if flag in input]
    if input.get("-i"):
        arguments.append("--ignore-case")
    if input.get("multiline"):
        arguments += ["--multiline", "--multiline-dotall"]
    elif "\\n" in input["pattern"] or "\n" in input["pattern"]:
        # Otherwise a line break never matches.
        arguments.append("--multiline")
    arguments += _which_files(_GLOB.findall(input.get("glob", "")), input.get("type"))
    return [*arguments, f"--regexp={input['pattern']}", "--", path]


def _which_files(globs: Sequence[str], kind: str | None) -> list[str]:
    """Name globs as a file type: unlike ripgrep's globs, types do not include files that .gitignore hides."""
    arguments = [f"--type={kind}"] if kind else []
    names = [glob for glob in globs if not kind and not re.search(r"[/:]|^!", glob)]
    arguments += [f"--type-add={_GLOB_TYPE}:{glob}" for glob in names]
    arguments += [f"--type={_GLOB_TYPE}"] if names else []
    return arguments + [f"--glob={glob}" for glob in globs if glob not in names]


def _explain_error(error: str) -> str:
    """Ripgrep's error for an invalid expression, shortened, with a hint."""
    said = re.search(r"regex parse error:.*?error: [^\n]+", error, re.DOTALL)
    if said is None:
        return visible_text(error)
    # Ripgrep wraps the expression in a group, which would confuse the model.
    text = "\n".join(line for line in said.group().splitlines() if not re.fullmatch(r"~+", line))
    hint = "To search for ( ) [ ] { } . * + ? | ^ $ or \\ as they stand, put a backslash before them."
    return visible_text(f"{text}\n{hint}")


def _drop_hidden(found: RipgrepResult, mode: str, context: ToolContext) -> list[_Line]:
    """The lines without those of hidden files. Blocking: resolves links on disk."""
    base = str(context.root).rstrip("/") + "/"
    hidden: dict[bytes, bool] = {}
    lines: list[_Line] = []
    begun = b""
    for raw in found.lines:
        name, null, rest = raw.partition(b"\0")
        if not null and mode != "files_with_matches":
            binary = _BINARY.fullmatch(raw)
            if binary is None:
                # Collects the start of a name that contains a line break, unless it is a separator.
                begun += raw + b"\n" if begun or raw != b"--" else b""
                lines += [] if begun else [_Line("")]
                continue
            name, rest = binary.groups()
        name, begun = begun + name, b""
        if context.hides is not None:
            if name not in hidden:
                hidden[name] = context.hides(os.fsdecode(name))
            if hidden[name]:
                continue
        path = _in_a_line(context.launcher.inside(name.decode("utf-8", errors="replace")).removeprefix(base))
        text = visible_text(rest.decode("utf-8", errors="replace").rstrip("\r"))
        numbered = _NUMBERED.fullmatch(text) if null and mode == "content" else None
        if numbered is None:
            lines.append(_Line(path, text))
        else:
            number, mark, text = numbered.groups()
            lines.append(_Line(path, text, int(number), mark == ":"))
    return _drop_idle_marks(lines)


def _in_a_line(path: str) -> str:
    return visible_text(path).replace("\n", "\u240a")


def _drop_idle_marks(lines: list[_Line]) -> list[_Line]:
    """Remove separators next to hidden places."""
    kept: list[_Line] = []
    for line in lines:
        if line.path or (kept and kept[-1].path):
            kept.append(line)
    return kept[:-1] if kept and not kept[-1].path else kept


def _as_text(line: _Line, mode: str, numbers: bool, *, named: bool = True) -> str:
    if mode == "files_with_matches":
        return line.path
    if not line.path:
        return "--"
    mark = ":" if line.is_match else "-"
    number = f"{line.number}{mark}" if line.number and numbers else ""
    return f"{line.path}{mark}{number}{line.text}" if named else f"{number}{line.text}"


def _format(found: RipgrepResult, limit: int, offset: int, input: Json, context: ToolContext, path: str) -> Output:
    """Format the result. `path`: the searched path. Blocking."""
    mode, in_folder = _mode(input), Path(path).is_dir()
    place = _in_a_line(context.launcher.inside(path) if in_folder else show_path(path, context))
    named = in_folder or mode != "content"
    every = _drop_hidden(found, mode, context)
    rows: list[_Line] = []
    texts: list[str] = []
    size = 0
    for line in every[offset : offset + limit]:
        text = _as_text(line, mode, input.get("-n", True), named=named)
        size += len(text) + 1
        if size > _MAX_CHARACTERS and texts:
            break
        rows.append(line)
        texts.append(text)
    incomplete = found.more or found.timed_out
    notes = _notes(len(every) - offset - len(rows), offset + len(rows), found, mode)
    summary = _summary(every, mode, "+" if incomplete else "")
    if mode == "count" and every:
        notes.insert(0, f"Total: {summary}")
    notes += [] if rows and not named else [f"[Searched {place}.]"]
    if not rows:
        nothing = f"No matches.{describe_ignored(path)}"
        texts = [f"No matches past offset {offset}." if offset and every else nothing]
        summary = "no matches"
    head = [f"{place}:"] if rows and not named else []
    return Output(
        "\n\n".join(["\n".join([*head, *texts]), *notes]),
        summary=summary,
        display={
            "kind": "matches",
            "mode": mode,
            "text": spell_hidden("\n".join(texts)),
            "rows": [_row(line, mode) for line in rows[:_MAX_ROWS]],
        },
        structured={"mode": mode, "lines": texts if rows else []},
    )


def _row(line: _Line, mode: str) -> Json:
    path = spell_hidden(line.path)
    if mode == "files_with_matches":
        return {"path": path}
    if mode == "count":
        return {"path": path, "count": int(line.text) if line.text.isdigit() else 0}
    return {"path": path, "line": line.number, "text": spell_hidden(line.text), "match": line.is_match}


def _notes(more: int, following: int, found: RipgrepResult, mode: str) -> list[str]:
    notes: list[str] = []
    if more > 0 or found.more:
        unit = "lines" if mode == "content" else "files"
        count = f"{max(more, 0):,} more {unit}" if more > 0 else f"More {unit}"
        count = f"At least {count}" if found.more and more > 0 else count
        notes.append(f"[{count}. Continue with offset {following}, or narrow the search.]")
    if found.timed_out:
        notes.append(f"[The search was ended after {TIME_LIMIT:g} s; this is what it had found. Narrow it.]")
    if problems := _unreadable(found):
        others = f" and {len(problems) - 1:,} other{'s' * (len(problems) > 2)}" if len(problems) > 1 else ""
        notes.append(f"[Could not be read: {visible_text(problems[0])}{others}.]")
    return notes


def _unreadable(found: RipgrepResult) -> list[str]:
    lines = found.error.splitlines()
    return [line.removeprefix("rg: ").removesuffix(".") for line in lines if "(os error" in line]


def _summary(lines: list[_Line], mode: str, plus: str) -> str:
    files = len({line.path for line in lines if line.path})
    in_files = f"{files:,}{plus} {'file' if files == 1 else 'files'}"
    if mode == "files_with_matches":
        return in_files
    if mode == "count":
        total = sum(int(line.text) for line in lines if line.text.isdigit())
    else:
        total = sum(line.is_match and bool(line.number) for line in lines)
    return f"{total:,}{plus} matching {'line' if total == 1 else 'lines'} in {in_files}"
