"""Grep: contents of files by regular expression, through ripgrep. In order of path, so that paging is stable."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.plaintext import plain_line, visible_text
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import (
    BuiltinTool,
    absolute_path,
    failure,
    in_thread,
    is_encodable,
    object_schema,
    shown_path,
)
from agentcli.tools.ripgrep import TIME_LIMIT, Found, search

DEFAULT_LIMIT = 250
_MOST_LINES = 20_000
_MOST_CHARACTERS = 40_000
_COUNT = {"type": "integer", "minimum": 0}


class Grep(BuiltinTool):
    name = "Grep"
    subject = "pattern"
    input_schema = object_schema(
        ["pattern"],
        {
            "pattern": {"type": "string", "minLength": 1, "description": "A regular expression (ripgrep's syntax)"},
            "path": {"type": "string", "description": "A file or folder; default: the working directory"},
            "glob": {"type": "string", "description": "Only files like this, for example *.{ts,tsx}"},
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
        text = f"{input['pattern']}{input.get('path')}{input.get('glob')}{input.get('type')}"
        return None if is_encodable(text) else "The input contains characters that cannot be searched for."

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        path = absolute_path(input.get("path") or ".", context)
        if not await in_thread(os.path.exists, path):
            yield failure(f"{shown_path(path, context)} does not exist. The working directory is {context.cwd}.")
            return
        limit, offset = input.get("head_limit", DEFAULT_LIMIT) or _MOST_LINES, input.get("offset", 0)
        found = await search(_arguments(input, path), context, signal, most=min(limit + offset, _MOST_LINES))
        if signal.aborted:
            yield failure("The search was stopped.", summary="stopped")
        elif found.error and not found.lines:
            yield failure(visible_text(found.error))
        else:
            yield await in_thread(_shown, found, offset, input, context)


def _arguments(input: Json, path: str) -> list[str]:
    mode = input.get("output_mode", "files_with_matches")
    arguments = ["--sort=path", "--no-messages" if mode != "content" else "--max-columns=500"]
    if mode == "files_with_matches":
        arguments.append("--files-with-matches")
    elif mode == "count":
        arguments += ["--count", "--with-filename", "--null"]
    else:
        arguments += ["--max-columns-preview", "--no-heading", "--with-filename", "--null"]
        arguments.append("--line-number" if input.get("-n", True) else "--no-line-number")
        arguments += [f"{flag}{input[flag]}" for flag in ("-A", "-B", "-C") if flag in input]
    if input.get("-i"):
        arguments.append("--ignore-case")
    if input.get("multiline"):
        arguments += ["--multiline", "--multiline-dotall"]
    if input.get("glob"):
        arguments.append(f"--glob={input['glob']}")
    if input.get("type"):
        arguments.append(f"--type={input['type']}")
    return [*arguments, f"--regexp={input['pattern']}", "--", path]


def _visible_lines(found: Found, offset: int, input: Json, context: ToolContext) -> list[str]:
    """The lines as they are shown, without those of hidden files. Blocking: hiding looks at links on disk."""
    base = str(context.cwd).rstrip("/") + "/"
    hidden: dict[str, bool] = {}
    lines: list[str] = []
    for raw in found.lines:
        name, null, rest = raw.partition(b"\0")
        path = os.fsdecode(name)
        if context.hides is not None and path.startswith("/"):
            if path not in hidden:
                hidden[path] = context.hides(path)
            if hidden[path]:
                continue
        text = os.fsencode(path.removeprefix(base)).decode("utf-8", errors="replace")
        if null:
            content = rest.decode("utf-8", errors="replace")
            # The separator after a line number tells matches (:) from the lines around them (-).
            numbered = re.match(r"\d+([:-])", content) if input.get("-n", True) else None
            text += (numbered.group(1) if numbered else ":") + content
        lines.append(visible_text(text.rstrip("\r")))
    return lines[offset:]


def _shown(found: Found, offset: int, input: Json, context: ToolContext) -> Output:
    visible = _visible_lines(found, offset, input, context)
    lines: list[str] = []
    size = 0
    for line in visible:
        size += len(line) + 1
        if size > _MOST_CHARACTERS and lines:
            break
        lines.append(line)
    unit = "lines" if input.get("output_mode") == "content" else "files"
    if not lines:
        text = f"No matches past offset {offset}." if offset and found.lines else "No matches."
        text += f" The search was ended after {TIME_LIMIT:g} s; narrow it." if found.timed_out else ""
        return Output(text, summary="no matches", structured={"mode": unit, "lines": []})
    text = "\n".join(lines)
    if found.more or len(lines) < len(visible):
        text += f"\n\n[There is more. Continue with offset {offset + len(lines)}, or narrow the search.]"
    if found.timed_out:
        text += f"\n\n[The search was ended after {TIME_LIMIT:g} s; this is what it had found. Narrow it.]"
    summary = f"{len(lines):,}{'+' if found.more else ''} {unit if len(lines) != 1 else unit[:-1]}"
    return Output(text, summary=summary, display={"kind": "matches", "text": text}, structured={"lines": lines})
