"""Content that is restored after a compaction because work needs it at once, each kind with a cap of its own.

Files used last are read from disk again, with the current permissions; the task list and the plan come from the log;
background commands from the shells. Nothing here decides what is summarised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.attachments.skills import RESTORED_SKILLS
from agentcli.agent.attachments.state_notes import TASK_LIST, tasks_text
from agentcli.agent.prompt_expansion import skill_text
from agentcli.context.compact import RESTORED, Share, cut_middle
from agentcli.context.estimate import block_tokens
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen, slotted
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
from agentcli.tools.base import Output
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
        shares.append((line, block_tokens(block)))
        if kind not in meta[RESTORED]:
            meta[RESTORED].append(kind)
        return True

    if add("tasks", tasks_text(log), "the todos"):
        meta[TASK_LIST] = True
    add("plan", plan_text(log), "the plan that was approved")
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
            line = f"{plain_line(file.path, 100)}{_name_lines(file.lines)}, as it is now"
            if room > MIN_FILE_TOKENS and add(FILES, file_text(file, room), line):
                meta.setdefault(FILES, []).append(file.path)
                if file.lines is not None:
                    meta.setdefault(PARTS, {})[file.path] = list(file.lines)
    return Restored(tuple(blocks), meta, tuple(shares))


def file_text(file: RestoredFile, tokens: int) -> str:
    text = cut_middle(file.text, tokens - 200)
    more = " Read shows what was left out." if text != file.text or file.lines is not None else ""
    name = f"{plain_line(file.path, 300)}{_name_lines(file.lines)}"
    return f"[{name} as it is on disk now, so that it need not be read again.{more}]\n{text}"


def _name_lines(lines: Lines | None) -> str:
    return f", lines {lines[0]}–{lines[1]}," if lines is not None else ""


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
FILES = "files"
"""Key in a restored message's meta: the files that it shows, last used first."""
PARTS = "parts"
"""Key in a restored message's meta: by file, the first and last line that it shows if that is not all."""
_READ_LINES = 2_000
"""Lines that Read shows without a limit."""
_AROUND = 15
"""Lines before and after an edit that are shown with it."""
_LOOKED_THROUGH = 4 * MAX_FILES
"""Number of recently used files to try: some are gone or may no longer be read."""
_AT_LINE = re.compile(r" at line (\d{1,9})\.")

Lines = tuple[int, int]
"""First and last line, from 1."""


@slotted
class UsedFile:
    path: str
    edited: bool = False
    whole: bool = False
    """Whether all of it was read or written."""
    lines: Lines | None = None
    """Lines that were read or changed last, if that was not all."""


@frozen
class RestoredFile:
    path: str
    text: str
    """Content as the model would read it now."""
    lines: Lines | None = None
    """The lines of it; None for the whole file."""


def recent_files(messages: Sequence[Message], canonical: Callable[[str], str] = str) -> list[UsedFile]:
    """Files that calls read or wrote or the user attached, last used first; then those that an earlier compaction
    restored. `canonical`: spelling of a path that may be written in several ways."""
    by_spelling: dict[str, UsedFile] = {}
    by_place: dict[str, UsedFile] = {}
    results: dict[str, ToolResultBlock] = {}

    def add(path: str, lines: Lines | None, *, edited: bool = False) -> None:
        uses = by_spelling.get(path)
        if uses is None:
            uses = by_spelling[path] = by_place.setdefault(canonical(path), UsedFile(path))
        uses.edited = uses.edited or edited
        uses.whole = uses.whole or lines is None
        uses.lines = uses.lines or lines

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
        one = message.meta.get(ATTACHED)
        if isinstance(one, dict) and "path" in one:
            add(str(one["path"]), _valid(one.get("lines")))
        if RESTORED in message.meta:
            for path in message.meta.get(FILES, ()):
                add(str(path), _valid(message.meta.get(PARTS, {}).get(path)))
    return list(by_place.values())


def by_importance(files: Sequence[UsedFile]) -> list[UsedFile]:
    """The files to show first: those used last, among them the last edited ones; then the others."""
    edited = [file.path for file in files if file.edited][:MAX_EDITED]
    others = [file.path for file in files if file.path not in edited]
    first = {*edited, *others[: MAX_FILES - len(edited)]}
    return sorted(files, key=lambda file: file.path not in first)


def paths_read(messages: Sequence[Message]) -> set[str]:
    """The files that these messages show already."""
    uses = (use for message in messages for use in message.tool_uses if use.name == "Read")
    return {str(use.input.get("file_path")) for use in uses}


def _lines(use: ToolUseBlock, result: ToolResultBlock | None) -> Lines | None:
    """The lines that a call read or changed; None: all of them, or unknown."""
    if use.name == "Edit":
        at = _AT_LINE.search(result.text) if result is not None else None
        if at is None:
            return None
        return max(1, int(at[1]) - _AROUND), int(at[1]) + str(use.input.get("new_string", "")).count("\n") + _AROUND
    first, count = use.input.get("offset"), use.input.get("limit")
    if use.name != "Read" or not (isinstance(first, int) or isinstance(count, int)):
        return None
    begin = max(1, first) if isinstance(first, int) else 1
    return begin, begin + (min(count, _READ_LINES) if isinstance(count, int) else _READ_LINES) - 1


def _valid(lines: object) -> Lines | None:
    """Lines in the meta of a message; None: all of them."""
    if isinstance(lines, list | tuple) and len(lines) == 2 and all(isinstance(number, int) for number in lines):
        return lines[0], lines[1]
    return None


async def _read_again(session: Session, files: Sequence[UsedFile], signal: AbortSignal) -> Sequence[RestoredFile]:
    """At most `MAX_FILES` of these files as they are now. Raises only `Aborted`.

    They are read through the Read tool, so that its handling of odd files, links and large files applies here too, and
    only if that is allowed now without a question. This does not count as a read by the model: a file that others have
    changed must still be read before it is written.
    """
    found: list[RestoredFile] = []
    for file in files[:_LOOKED_THROUGH]:
        if len(found) >= MAX_FILES:
            break
        restored = await signal.run(_restore(session, file, signal))
        if restored is not None:
            found.append(restored)
    return found


async def _restore(session: Session, file: UsedFile, signal: AbortSignal) -> RestoredFile | None:
    """The whole file if that was read and is not too long; otherwise the lines used last."""
    if file.whole or file.lines is None:
        text = await _text(session, {"file_path": file.path}, signal)
        if text is None or file.lines is None or block_tokens(TextBlock(text)) <= FILE_TOKENS:
            return None if text is None else RestoredFile(file.path, text)
    first, last = file.lines
    text = await _text(session, {"file_path": file.path, "offset": first, "limit": last - first + 1}, signal)
    return RestoredFile(file.path, text, file.lines) if text else None


async def _text(session: Session, input: Json, signal: AbortSignal) -> str | None:
    read, context = session.registry.get("Read"), replace(session.tool_context, read_cache=ReadCache())
    if read is None or read.check(input, context) is not None:
        return None
    needs = read.needs(input, context)
    if session.permissions.decide(read.name, input, needs, context).behavior != "allow":
        return None
    output: Output | None = None
    try:
        async with aclosing(read.run(input, replace(context, needs=needs), signal)) as items:
            async for item in items:
                output = item if isinstance(item, Output) else output
    except Exception:  # noqa: BLE001 - a tool's bug must not keep a conversation from being shortened
        return None
    return output.content if output is not None and not output.is_error and isinstance(output.content, str) else None
