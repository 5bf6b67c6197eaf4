"""Content that is restored after a compaction because work needs it at once, each kind with a cap of its own (SPEC 4).

Files used last are read from disk again, with the current permissions; the task list and the plan come from the log;
background commands from the shells. Nothing here decides what is summarised.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.context.compaction_preview import Share
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.prompt_expansion import skill_text
from agentcli.agent.updates.attachments import TASK_LIST, tasks_text
from agentcli.agent.updates.instructions import PATH_ARGUMENTS
from agentcli.agent.updates.mentions import attached_paths
from agentcli.agent.updates.skills import RESTORED_SKILLS
from agentcli.context.compact import RESTORED, cut_middle
from agentcli.context.estimate import block_tokens
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import RESULT_DATA, Block, Json, Message, TextBlock, clean_text
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.definitions.library import Library
from agentcli.tools.base import Output, Tool, ToolContext
from agentcli.tools.builtin import absolute_path
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.planning.todowrite import todos_from
from agentcli.tools.shell.background import BackgroundTask

MOST_FILES = 5
FILE_TOKENS = 5_000
LEAST_FILE_TOKENS = 300
PLAN_TOKENS = 5_000
MOST_COMMANDS = 20
MOST_SKILLS = 5
SKILL_TOKENS = 5_000

_FILES = "files"
"""Key in a restored message's meta: the files that it shows, last used first."""

_LOOKED_THROUGH = 4 * MOST_FILES
"""Number of recently used files to try: some are gone or may no longer be read."""


@frozen
class RestoredFile:
    path: str
    text: str
    """Content as the model would read it now."""


Files = Callable[[Sequence[str], AbortSignal], Awaitable[Sequence[RestoredFile]]]
"""Reads these files again, last used first; returns at most `MOST_FILES` of them. Raises only `Aborted`."""


async def no_files(_paths: Sequence[str], _signal: AbortSignal) -> Sequence[RestoredFile]:
    return ()


@frozen
class RestoreSources:
    """Sources of restored content outside of the conversation."""

    files: Files = no_files
    background: Callable[[], Sequence[BackgroundTask]] = tuple
    skill: Callable[[str], str] = lambda _name: ""
    """The current text of a skill; "" if it is gone."""
    canonical: Callable[[str], str] = str
    """Canonical spelling of a path that calls may have written in several ways."""


@frozen
class Restored:
    """Restored content, as the content of one message."""

    blocks: tuple[Block, ...]
    meta: Json
    shares: tuple[Share, ...]
    """The same for display."""


class RecentFiles:
    """`Files` from disk, through the Read tool, so that its handling of odd files, links and large files applies here
    too.

    A file is shown only if reading it is allowed now without a question. This does not count as a read by the model: a
    file that others have changed must still be read before it is written.
    """

    def __init__(self, read: Tool, permissions: LivePermissions, context: ToolContext) -> None:
        self._read = read
        self._permissions = permissions
        self._context = context

    async def __call__(self, paths: Sequence[str], signal: AbortSignal) -> Sequence[RestoredFile]:
        found: list[RestoredFile] = []
        for path in paths[:_LOOKED_THROUGH]:
            if len(found) >= MOST_FILES:
                break
            text = await signal.run(self._text(path, signal))
            if text is not None:
                found.append(RestoredFile(path, text))
        return found

    async def _text(self, path: str, signal: AbortSignal) -> str | None:
        context = replace(self._context, read_cache=ReadCache())
        input: Json = {"file_path": path}
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


def restore_sources(
    read: Tool | None, permissions: LivePermissions, context: ToolContext, definitions: Library | None = None
) -> RestoreSources:
    """Sources for a conversation whose calls run in this context; without a Read tool no file is shown."""
    shells = context.shells

    def skill(name: str) -> str:
        found = definitions.skills.get(name) if definitions is not None else None
        return skill_text(found, "") if found is not None else ""

    return RestoreSources(
        skill=skill,
        files=no_files if read is None else RecentFiles(read, permissions, context),
        canonical=lambda path: os.path.realpath(absolute_path(path, context)),
        background=lambda: [shell.task for shell in shells.known()] if shells is not None else [],
    )


async def restored(
    log: Sequence[Message],
    paths: Sequence[str],
    sources: RestoreSources,
    budget: int,
    signal: AbortSignal,
    skills: Sequence[str] = (),
) -> Restored:
    """Restore everything that fits, most important first. `paths`, `skills`: candidates, last used first. Raises
    `Aborted`."""
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
        if add("skills", restored_skill(name, sources.skill(name)), f"the skill {name}"):
            meta.setdefault(RESTORED_SKILLS, []).append(name)
    running = [task for task in sources.background() if task.status == "running"]
    add("background", background_text(running), counted(len(running), "running background command"))
    if paths and budget > LEAST_FILE_TOKENS:
        for file in await sources.files(paths, signal):
            room = min(FILE_TOKENS, budget)
            line = f"{plain_line(file.path, 100)}, as it is now"
            if room > LEAST_FILE_TOKENS and add(_FILES, file_text(file, room), line):
                meta.setdefault(_FILES, []).append(file.path)
    return Restored(tuple(blocks), meta, tuple(shares))


def recent_paths(messages: Sequence[Message]) -> list[str]:
    """Files that calls read or wrote, last used first; then those that an earlier compaction restored."""
    failed: set[str] = set()
    paths: dict[str, None] = {}
    for message in reversed(messages):
        failed.update(result.tool_use_id for result in message.tool_results if result.is_error)
        for use in reversed(message.tool_uses):
            path = use.input.get(PATH_ARGUMENTS.get(use.name, ""))
            if isinstance(path, str) and path and use.id not in failed:
                paths.setdefault(path)
        for path in attached_paths([message]):
            paths.setdefault(path)
        carried = message.meta.get(_FILES)
        if RESTORED in message.meta and isinstance(carried, list):
            for path in carried:
                paths.setdefault(str(path))
    return list(paths)


def paths_read(messages: Sequence[Message]) -> set[str]:
    """The files that these messages show already."""
    uses = (use for message in messages for use in message.tool_uses if use.name == "Read")
    return {str(use.input.get("file_path")) for use in uses}


def file_text(file: RestoredFile, tokens: int) -> str:
    text = cut_middle(file.text, tokens - 150)
    more = " Read shows what was left out." if text != file.text else ""
    return f"[{plain_line(file.path, 300)} as it is on disk now, so that it need not be read again.{more}]\n{text}"


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
