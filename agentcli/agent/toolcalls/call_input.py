"""Inputs of calls, converted to fit their tools' schemas, and the paths that a call may change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, cast

from agentcli.core.aio import in_thread
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.schema import checked

if TYPE_CHECKING:
    from agentcli.shell.commands.command_parts import CommandPart

Fitted = tuple[Json, list[str]]
"""A converted input and the problems found in it."""


def fit_input(tool: Tool, given: Json, *, answered: bool = False) -> Fitted:
    """Convert and check an input, unless the tool validates itself because it explains problems better. The result
    shares nothing with `given`, which is part of the log and of every later request: a tool may modify its input.

    `answered`: the input comes with the user's answer, in which a tool may accept more than from the model.
    """
    if getattr(tool, "validates_itself", False):
        return deepcopy(given), []
    schema = getattr(tool, "answer_schema", tool.input_schema) if answered else tool.input_schema
    return checked(schema, deepcopy(given))


def observed_input(tool: Tool | None, input: Json, context: ToolContext) -> Json:
    """An input as hooks and other programs see it: with the fields that the tool derives from it (T9)."""
    derive = getattr(tool, "observed", None)
    try:
        return input if derive is None else cast(Json, derive(input, context))
    except Exception:  # noqa: BLE001 - an input that does not fit the tool is shown as it is
        return input


def without_derived(updated: Json, input: Json, observed: Json) -> Json:
    """A hook's change of an observed input, without the fields that only the observation added."""
    return {
        name: value
        for name, value in updated.items()
        if name in input or name not in observed or observed[name] != value
    }


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
    if part.extended or not part.folders or part.command.expanded is not None:
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
