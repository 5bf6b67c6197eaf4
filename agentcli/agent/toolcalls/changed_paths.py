"""Find which files a call can change, as far as its input shows: an undo leaves all others untouched.

Never too few: if a command may change files that it does not name, the answer is "any file".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentcli.core.aio import in_thread
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.shell.commands.command_parts import CommandPart


async def changed_paths(input: Json, needs: Sequence[Need], context: ToolContext) -> tuple[str, ...] | None:
    """Absolute paths that the call may change, including everything below them; None: any file. Call it before the tool
    runs: patterns in commands are expanded on disk."""
    kinds = {need.kind for need in needs}
    if kinds <= {"read", "write", "none"}:
        return _with_links(path for need in needs if need.kind == "write" for path in (need.target, need.real) if path)
    command = input.get("command")
    if (
        kinds <= {"read", "write", "none", "execute"}
        and isinstance(command, str)
        and not input.get("run_in_background")
    ):
        return await in_thread(paths_of_command, command, context)
    return None


def paths_of_command(command: str, context: ToolContext) -> tuple[str, ...] | None:
    """Like `changed_paths`, for a command line. Blocking: patterns may match many files."""
    from agentcli.shell.command_context import CommandContext
    from agentcli.shell.commands.command_parts import analyse
    from agentcli.shell.parser.strict_parser import NotPlain

    parts = analyse(command, CommandContext.of(context.cwd, context.working_dirs))
    if isinstance(parts, NotPlain):
        return None
    paths: list[str] = []
    for part in parts:
        found = _by_part(part)
        if found is None:
            return None
        paths += found
    return _with_links(paths)


def _by_part(part: CommandPart) -> list[str] | None:
    from agentcli.shell.commands.file_commands import part_changes

    written = [one.target for one in part.command.redirections if one.kind == "write"]
    if part.unresolved or part.extended or not part.folders or part.command.expanded is not None:
        return None
    paths = [os.path.join(folder, target) for folder in part.folders for target in written]  # noqa: PTH118
    if part.objection is None:
        return paths
    for folder in part.folders:
        changes = part_changes(part, folder)
        if changes is None:
            return None
        paths += [*changes.writes, *changes.removes]
    return paths


def _with_links(paths: Iterable[str]) -> tuple[str, ...]:
    """Each path itself, and its resolved target."""
    found: dict[str, None] = {}
    for path in paths:
        parent, name = os.path.split(os.path.normpath(path))
        found[os.path.join(os.path.realpath(parent), name)] = None  # noqa: PTH118
        found[os.path.realpath(path)] = None
    return tuple(found)
