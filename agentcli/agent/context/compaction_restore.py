"""Content that is restored after a compaction because work needs it at once, each kind with a cap of its own.

Files used last are read from disk again, with the current permissions; the task list and the plan come from the log;
background commands from the shells. Nothing here decides what is summarised.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentcli.agent.attachments.skills import RESTORED_SKILLS
from agentcli.agent.attachments.state_notes import TASK_LIST, tasks_text
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.prompt_expansion import skill_text
from agentcli.context.compact import RESTORED, cut_middle
from agentcli.context.compaction_preview import Share
from agentcli.context.estimate import block_tokens
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    ATTACHED,
    RESULT_DATA,
    Block,
    Json,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    clean_text,
)
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Tool, ToolContext
from agentcli.tools.builtin import absolute_path
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.planning import todos_from
from agentcli.tools.registry import file_field
from agentcli.tools.shell.background import BackgroundTask

if TYPE_CHECKING:
    from agentcli.agent.session import Session


MIN_FILE_TOKENS = 300
PLAN_TOKENS = 5_000
MAX_COMMANDS = 20
MAX_SKILLS = 5
SKILL_TOKENS = 5_000


@frozen
class Restored:
    """Restored content, as the content of one message."""

    blocks: tuple[Block, ...]
    meta: Json
    shares: tuple[Share, ...]
    """The same for display."""


def canonical_path(session: Session, path: str) -> str:
    """Canonical spelling of a path that calls may have written in several ways."""
    return os.path.realpath(absolute_path(path, session.tool_context))


def _skill(session: Session, name: str) -> str:
    """The current text of a skill; "" if it is gone."""
    found = session.definitions.skills.get(name) if session.definitions is not None else None
    return skill_text(found, "") if found is not None else ""


async def _read_again(session: Session, files: Sequence[UsedFile], signal: AbortSignal) -> Sequence[RestoredFile]:
    """Some of these files as they are now; without a Read tool none. Raises only `Aborted`."""
    read = session.registry.get("Read")
    return () if read is None else await RecentFiles(read, session.permissions, session.tool_context)(files, signal)


async def restored(
    session: Session,
    log: Sequence[Message],
    files: Sequence[UsedFile],
    budget: int,
    signal: AbortSignal,
    skills: Sequence[str] = (),
) -> Restored:
    """Restore everything that fits, most important first. `files`, `skills`: candidates, most important first.
    Raises `Aborted`."""
    blocks: list[Block] = []
    meta: Json = {RESTORED: []}
    shares: list[Share] = []

    def add(kind: str, text: str, line: str) -> bool:
        nonlocal budget
        block = TextBlock(clean_text(text))
        if not text or block_tokens(block) > budget:
            return False
        budget -= block_tokens(block)
        blocks.append(block)
        shares.append(Share(line, block_tokens(block)))
        if kind not in meta[RESTORED]:
            meta[RESTORED].append(kind)
        return True

    if add("tasks", tasks_text(log), "the todos"):
        meta[TASK_LIST] = True
    await asyncio.sleep(0)
    add("plan", plan_text(log), "the plan that was approved")
    await asyncio.sleep(0)
    for name in skills[:MAX_SKILLS]:
        if add("skills", restored_skill(name, _skill(session, name)), f"the skill {name}"):
            meta.setdefault(RESTORED_SKILLS, []).append(name)
    shells = session.tool_context.shells
    known = [shell.task for shell in shells.known()] if shells is not None else []
    running = [task for task in known if task.status == "running"]
    add("background", background_text(running), counted(len(running), "running background command"))
    if files and budget > MIN_FILE_TOKENS:
        for file in await _read_again(session, files, signal):
            room = min(FILE_TOKENS, budget)
            line = f"{plain_line(file.path, 100)}{_name_lines(file.parts)}, as it is now"
            if room > MIN_FILE_TOKENS and add(FILES, file_text(file, room), line):
                meta.setdefault(FILES, []).append(file.path)
                if file.parts:
                    meta.setdefault(PARTS, {})[file.path] = [list(part) for part in file.parts]
    return Restored(tuple(blocks), meta, tuple(shares))


def file_text(file: RestoredFile, tokens: int) -> str:
    text = cut_middle(file.text, tokens - 200)
    more = " Read shows what was left out." if text != file.text or file.parts else ""
    name = f"{plain_line(file.path, 300)}{_name_lines(file.parts)}"
    return f"[{name} as it is on disk now, so that it need not be read again.{more}]\n{text}"


def _name_lines(parts: Sequence[Lines]) -> str:
    return f", lines {', '.join(f'{first}–{last}' for first, last in parts)}," if parts else ""


def restored_skill(name: str, text: str) -> str:
    return f"[The skill {plain_line(name)}, which was loaded before:]\n{cut_middle(text, SKILL_TOKENS)}" if text else ""


def plan_text(log: Sequence[Message]) -> str:
    """The plan that the user approved last, unless planning began again or all tasks written after it are done."""
    for place in range(len(log) - 1, -1, -1):
        for use in reversed(log[place].tool_uses):
            if use.name not in ("EnterPlanMode", "ExitPlanMode"):
                continue
            result = next((one for m in reversed(log) for one in m.tool_results if one.tool_use_id == use.id), None)
            if result is None or result.is_error:
                continue
            if use.name == "EnterPlanMode" or _all_done(log[place:]):
                return ""
            # The user may have edited the plan that the call proposed.
            data: Json = next((d[use.id] for m in reversed(log) if use.id in (d := m.meta.get(RESULT_DATA, {}))), {})
            plan = str(data.get("plan", ""))
            shown = cut_middle(plan, PLAN_TOKENS)
            return f"[The plan that the user approved; the hand-over says what of it is done:]\n{shown}" if plan else ""
    return ""


def _all_done(log: Sequence[Message]) -> bool:
    todos = todos_from(log)
    return bool(todos) and all(todo["status"] == "completed" for todo in todos)


def background_text(running: Sequence[BackgroundTask]) -> str:
    if not running:
        return ""
    lines = [
        f"{task.id} ({plain_line(task.command, 100)}): running for {task.seconds:.0f} s"
        for task in running[:MAX_COMMANDS]
    ]
    if len(running) > MAX_COMMANDS:
        lines.append(f"and {len(running) - MAX_COMMANDS} more")
    return "[Background commands that run now; BashOutput reads what they put out:\n" + "\n".join(lines) + "]"


MAX_FILES = 5
MAX_EDITED = 3
"""Edited files that are shown even if others were used later."""
FILE_TOKENS = 5_000
MAX_PARTS = 8
"""Parts of one file that are remembered."""
FILES = "files"
"""Key in a restored message's meta: the files that it shows, last used first."""
PARTS = "parts"
"""Key in a restored message's meta: by file, the lines that it shows if that is not all."""
_READ_LINES = 2_000
"""Lines that Read shows without a limit."""
_AROUND = 15
"""Lines before and after an edit that are shown with it."""
_LOOKED_THROUGH = 4 * MAX_FILES
"""Number of recently used files to try: some are gone or may no longer be read."""
_AT_LINE = re.compile(r" at line (\d{1,9})\.")

Lines = tuple[int, int]
"""First and last line, from 1."""


@frozen
class UsedFile:
    path: str
    edited: bool = False
    whole: bool = False
    """Whether all of it was read or written."""
    parts: tuple[Lines, ...] = ()
    """Lines that were read or changed, last used first."""


@frozen
class RestoredFile:
    path: str
    text: str
    """Content as the model would read it now."""
    parts: tuple[Lines, ...] = ()
    """The lines of it; () for the whole file."""


@dataclass(slots=True)
class _Uses:
    path: str
    edited: bool = False
    whole: bool = False
    parts: list[Lines] = field(default_factory=list)


def recent_files(messages: Sequence[Message], canonical: Callable[[str], str] = str) -> list[UsedFile]:
    """Files that calls read or wrote or the user attached, last used first; then those that an earlier compaction
    restored. `canonical`: spelling of a path that may be written in several ways."""
    by_spelling: dict[str, _Uses] = {}
    by_place: dict[str, _Uses] = {}
    results: dict[str, ToolResultBlock] = {}

    def add(path: str, lines: Lines | None, *, edited: bool = False) -> None:
        uses = by_spelling.get(path)
        if uses is None:
            uses = by_spelling[path] = by_place.setdefault(canonical(path), _Uses(path))
        uses.edited = uses.edited or edited
        if lines is None:
            uses.whole = True
        elif len(uses.parts) < MAX_PARTS:
            uses.parts.append(lines)

    for message in reversed(messages):
        if message.role == "assistant":
            for use in reversed(message.tool_uses):
                path, result = use.input.get(file_field(use.name)), results.get(use.id)
                if isinstance(path, str) and path and (result is None or not result.is_error):
                    add(path, _lines(use, result), edited=use.name != "Read")
            continue
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                results[block.tool_use_id] = block
        if message.meta:
            for path, lines in (*_attach(message), *_carry(message)):
                add(path, lines)
    return [UsedFile(uses.path, uses.edited, uses.whole, tuple(uses.parts)) for uses in by_place.values()]


def by_importance(files: Sequence[UsedFile]) -> list[UsedFile]:
    """The files to show first: those used last, among them the last edited ones; then the others."""
    edited = [file for file in files if file.edited][:MAX_EDITED]
    others = [file for file in files if file not in edited]
    first = {*edited, *others[: MAX_FILES - len(edited)]}
    return [*(file for file in files if file in first), *(file for file in files if file not in first)]


def paths_read(messages: Sequence[Message]) -> set[str]:
    """The files that these messages show already."""
    uses = (use for message in messages for use in message.tool_uses if use.name == "Read")
    return {str(use.input.get("file_path")) for use in uses}


def _lines(use: ToolUseBlock, result: ToolResultBlock | None) -> Lines | None:
    """The lines that a call read or changed; None: all of them, or unknown."""
    if use.name == "Edit":
        at = _AT_LINE.search(result.text) if result is not None else None
        return _around(int(at[1]), str(use.input.get("new_string", "")).count("\n")) if at else None
    first, count = use.input.get("offset"), use.input.get("limit")
    if use.name != "Read" or not (isinstance(first, int) or isinstance(count, int)):
        return None
    begin = max(1, first) if isinstance(first, int) else 1
    return begin, begin + (min(count, _READ_LINES) if isinstance(count, int) else _READ_LINES) - 1


def _around(line: int, more: int) -> Lines:
    return max(1, line - _AROUND), line + more + _AROUND


def _attach(message: Message) -> Iterator[tuple[str, Lines | None]]:
    one = message.meta.get(ATTACHED)
    if isinstance(one, dict) and "path" in one:
        yield str(one["path"]), next(_valid([one.get("lines")]), None)


def _carry(message: Message) -> Iterator[tuple[str, Lines | None]]:
    """What an earlier compaction restored."""
    paths, parts = message.meta.get(FILES), message.meta.get(PARTS)
    for path in paths if RESTORED in message.meta and isinstance(paths, list) else ():
        known = list(_valid(parts.get(path) or ())) if isinstance(parts, dict) else []
        yield from ((str(path), lines) for lines in known or (None,))


def _valid(parts: Iterable[object]) -> Iterator[Lines]:
    for one in parts:
        if isinstance(one, list | tuple) and len(one) == 2 and all(isinstance(number, int) for number in one):
            yield one[0], one[1]


def merge_parts(parts: Iterable[Lines]) -> tuple[Lines, ...]:
    """The same lines in order, overlapping and adjacent parts joined."""
    merged: list[Lines] = []
    for first, last in sorted(parts):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


class RecentFiles:
    """Reads used files from disk, through the Read tool, so that its handling of odd files, links and large files
    applies here too.

    A file is shown only if reading it is allowed now without a question. This does not count as a read by the model: a
    file that others have changed must still be read before it is written.
    """

    def __init__(self, read: Tool, permissions: LivePermissions, context: ToolContext) -> None:
        self._read = read
        self._permissions = permissions
        self._context = context

    async def __call__(self, files: Sequence[UsedFile], signal: AbortSignal) -> Sequence[RestoredFile]:
        """At most `MAX_FILES` of them. Raises only `Aborted`."""
        found: list[RestoredFile] = []
        for file in files[:_LOOKED_THROUGH]:
            if len(found) >= MAX_FILES:
                break
            restored = await signal.run(self._restore(file, signal))
            if restored is not None:
                found.append(restored)
        return found

    async def _restore(self, file: UsedFile, signal: AbortSignal) -> RestoredFile | None:
        """The whole file if that was read and is not too long; otherwise the parts used last that fit."""
        if file.whole or not file.parts:
            text = await self._text({"file_path": file.path}, signal)
            if text is None or not file.parts or _tokens(text) <= FILE_TOKENS:
                return None if text is None else RestoredFile(file.path, text)
        chosen: list[Lines] = []
        texts: dict[Lines, str] = {}
        for part in file.parts:
            tried = merge_parts((*chosen, part))
            for first, last in tried:
                if (first, last) not in texts:
                    lines: Json = {"file_path": file.path, "offset": first, "limit": last - first + 1}
                    texts[first, last] = await self._text(lines, signal) or ""
            if chosen and sum(_tokens(texts[one]) for one in tried) > FILE_TOKENS:
                break
            chosen = [one for one in tried if texts[one]]
        text = "\n[…]\n".join(texts[one] for one in chosen)
        return RestoredFile(file.path, text, tuple(chosen)) if text else None

    async def _text(self, input: Json, signal: AbortSignal) -> str | None:
        context = replace(self._context, read_cache=ReadCache())
        if self._read.check(input, context) is not None:
            return None
        needs = self._read.needs(input, context)
        if self._permissions.decide(self._read.name, input, needs, context).behavior != "allow":
            return None
        output: Output | None = None
        try:
            async with aclosing(self._read.run(input, replace(context, needs=needs), signal)) as items:
                async for item in items:
                    if isinstance(item, Output):
                        output = item
        except Exception:  # noqa: BLE001 - a tool's bug must not keep a conversation from being shortened
            return None
        if output is None or output.is_error or not isinstance(output.content, str):
            return None
        return output.content


def _tokens(text: str) -> int:
    return block_tokens(TextBlock(text))
