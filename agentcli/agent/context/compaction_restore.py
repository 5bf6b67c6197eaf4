"""Content that is restored after a compaction because work needs it at once, each kind with a cap of its own.

Files used last are read from disk again, with the current permissions; the task list and the plan come from the log;
background commands from the shells. Nothing here decides what is summarised.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.attachments.mentions import list_attached_paths
from agentcli.agent.attachments.skills import RESTORED_SKILLS
from agentcli.agent.attachments.state_notes import TASK_LIST, tasks_text
from agentcli.agent.prompt_expansion import skill_text
from agentcli.context.compact import RESTORED, Share, cut_middle
from agentcli.context.estimate import block_tokens
from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import (
    RESULT_DATA,
    Block,
    Json,
    Message,
    TextBlock,
    clean_text,
)
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, absolute_path
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


async def restore_within(
    session: Session,
    log: Sequence[Message],
    files: Sequence[str],
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
        if add("skills", format_skill(name, _skill(session, name)), f"the skill {name}"):
            meta.setdefault(RESTORED_SKILLS, []).append(name)
    shells = session.tool_context.shells
    known = [shell.task for shell in shells.known()] if shells is not None else []
    running = [task for task in known if task.status == "running"]
    add("background", describe_background(running), counted(len(running), "running background command"))
    if files and budget > MIN_FILE_TOKENS:
        for path, text in (await _read_again(session, log, files, signal)).items():
            room = min(FILE_TOKENS, budget)
            if room > MIN_FILE_TOKENS and add(
                FILES, file_text(path, text, room), f"{plain_line(path, 100)}, as it is now"
            ):
                meta.setdefault(FILES, []).append(path)
    return Restored(tuple(blocks), meta, tuple(shares))


def file_text(path: str, text: str, tokens: int) -> str:
    shown = cut_middle(text, tokens - 200)
    state = "so that it need not be read again" if shown == text else "in part: Read shows what was left out"
    return f"[{plain_line(path, 300)} as it is on disk now, {state}.]\n{shown}"


def format_skill(name: str, text: str) -> str:
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


def describe_background(running: Sequence[BackgroundTask]) -> str:
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
FILE_TOKENS = 5_000
FILES = "files"
"""Key in a restored message's meta: the files that it shows, last used first."""
_LOOKED_THROUGH = 4 * MAX_FILES
"""Number of recently used files to try: some are gone or may no longer be read."""


def recent_files(messages: Sequence[Message], canonical: Callable[[str], str] = str) -> list[str]:
    """Files that calls read or wrote or the user attached, last used first; then those that an earlier compaction
    restored. `canonical`: spelling of a path that may be written in several ways."""
    found: dict[str, str] = {}
    failed: set[str] = set()
    for message in reversed(messages):
        failed.update(result.tool_use_id for result in message.tool_results if result.is_error)
        paths = [use.input.get(file_field(use.name)) for use in reversed(message.tool_uses) if use.id not in failed]
        paths += list_attached_paths([message])
        if RESTORED in message.meta:
            paths += message.meta.get(FILES, ())
        for path in paths:
            if isinstance(path, str) and path:
                found.setdefault(canonical(path), path)
    return list(found.values())


def paths_read(messages: Sequence[Message]) -> set[str]:
    """The files that these messages show already."""
    uses = (use for message in messages for use in message.tool_uses if use.name == "Read")
    return {str(use.input.get("file_path")) for use in uses}


async def _read_again(
    session: Session, log: Sequence[Message], files: Sequence[str], signal: AbortSignal
) -> dict[str, str]:
    """At most `MAX_FILES` of these files with their present text, in the lines that were read last. Raises only
    `Aborted`.

    They are read through the Read tool, so that its handling of odd files, links and large files applies here too, and
    only if that is allowed now without a question. This does not count as a read by the model: a file that others have
    changed must still be read before it is written.
    """
    found: dict[str, str] = {}
    reads = {use.input.get("file_path"): use.input for m in log for use in m.tool_uses if use.name == "Read"}
    for path in files[:_LOOKED_THROUGH]:
        if len(found) >= MAX_FILES:
            break
        lines = {key: value for key, value in reads.get(path, {}).items() if key in ("offset", "limit")}
        text = await signal.run(_text(session, {"file_path": path, **lines}, signal))
        if text is not None:
            found[path] = text
    return found


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
