"""Content that is restored after a compaction because work needs it at once, each kind with a cap of its own (SPEC 4).

Files used last are read from disk again, with the current permissions; the task list and the plan come from the log;
background commands from the shells. Nothing here decides what is summarised.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.agent.context.compaction_preview import Share
from agentcli.agent.context.recent_files import FILE_TOKENS, FILES, PARTS, Lines, RecentFiles, RestoredFile, UsedFile
from agentcli.agent.prompt_expansion import skill_text
from agentcli.agent.updates.attachments import TASK_LIST, tasks_text
from agentcli.agent.updates.skills import RESTORED_SKILLS
from agentcli.context.compact import RESTORED, cut_middle
from agentcli.context.estimate import block_tokens
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import RESULT_DATA, Block, Json, Message, TextBlock, clean_text
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.tools.builtin import absolute_path
from agentcli.tools.planning.todowrite import todos_from
from agentcli.tools.shell.background import BackgroundTask

if TYPE_CHECKING:
    from agentcli.agent.session import Session

LEAST_FILE_TOKENS = 300
PLAN_TOKENS = 5_000
MOST_COMMANDS = 20
MOST_SKILLS = 5
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
    for name in skills[:MOST_SKILLS]:
        if add("skills", restored_skill(name, _skill(session, name)), f"the skill {name}"):
            meta.setdefault(RESTORED_SKILLS, []).append(name)
    shells = session.tool_context.shells
    known = [shell.task for shell in shells.known()] if shells is not None else []
    running = [task for task in known if task.status == "running"]
    add("background", background_text(running), counted(len(running), "running background command"))
    if files and budget > LEAST_FILE_TOKENS:
        for file in await _read_again(session, files, signal):
            room = min(FILE_TOKENS, budget)
            line = f"{plain_line(file.path, 100)}{_named_lines(file.parts)}, as it is now"
            if room > LEAST_FILE_TOKENS and add(FILES, file_text(file, room), line):
                meta.setdefault(FILES, []).append(file.path)
                if file.parts:
                    meta.setdefault(PARTS, {})[file.path] = [list(part) for part in file.parts]
    return Restored(tuple(blocks), meta, tuple(shares))


def file_text(file: RestoredFile, tokens: int) -> str:
    text = cut_middle(file.text, tokens - 200)
    more = " Read shows what was left out." if text != file.text or file.parts else ""
    name = f"{plain_line(file.path, 300)}{_named_lines(file.parts)}"
    return f"[{name} as it is on disk now, so that it need not be read again.{more}]\n{text}"


def _named_lines(parts: Sequence[Lines]) -> str:
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
        for task in running[:MOST_COMMANDS]
    ]
    if len(running) > MOST_COMMANDS:
        lines.append(f"and {len(running) - MOST_COMMANDS} more")
    return "[Background commands that run now; BashOutput reads what they put out:\n" + "\n".join(lines) + "]"
