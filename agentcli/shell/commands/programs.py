"""Find the file that runs under a program's name, and what it starts or loads.

A command is read-only only if nothing that it runs can be chosen by files of a working directory, which a model or an
untrusted author may have written: programs on PATH, version managers, git settings. A sandbox that contains read-only
commands makes that harmless, except for git, whose answers the user relies on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.files.links import is_below
from agentcli.shell.commands.read_only_table import STARTS, STEERED, STEERING_FILES
from agentcli.shell.git_config import is_repository, runs_programs
from agentcli.shell.paths import real_path

if TYPE_CHECKING:
    from agentcli.shell.command_context import CommandContext

_BUILT_IN = frozenset(
    "cd echo printf test [ [[ true false : pwd type command builtin exit time read export set".split()  # noqa: SIM905
)


def own_program(name: str, place: CommandContext) -> str | None:
    """Reason if files of a working directory decide what `name` runs or starts; else None."""
    for program in (name, *STARTS.get(name, ())) if not place.contained else ():
        reason = _found_inside(program, place)
        if reason is not None:
            return reason if program == name else f"{name} starts {program}, and {reason}"
    return None


def _found_inside(name: str, place: CommandContext) -> str | None:
    if name in _BUILT_IN or "/" in name or not place.search_path:
        return None
    for entry in place.search_path.split(os.pathsep):
        if not entry.startswith("/"):
            return f"PATH contains {entry or '.'}, so any {name} may run"
        path = os.path.join(entry, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            inside = place.holds(entry) or place.holds(path)
            return f"the program {path} is a file in a working directory" if inside else None
    return None


# ---------------------------------------------------------------------------------- files that select or configure


def folder_objection(words: Sequence[str], folder: str, place: CommandContext) -> str | None:
    """Reason if files in or above the folder decide what runs; else None. Where a sandbox contains read-only commands,
    only what git obeys counts."""
    program = words[0]
    if program == "git":
        return _git_objection(Path(real_path(folder)), place)
    if place.contained:
        return None
    config = os.environ.get("RIPGREP_CONFIG_PATH") if program == "rg" and "--no-config" not in words else None
    if config and place.holds(os.path.join(folder, config)):  # noqa: PTH118
        return f"rg reads options from {config}, which can make it run programs"
    if program == "pip" and words[1:] != ("--version",):
        return "pip loads code that a working directory may have installed"
    path = Path(real_path(folder))
    for ancestor in (path, *path.parents) if program in STEERED else ():
        for name in STEERING_FILES if is_below(str(ancestor), place.working_dirs) else ():
            if (ancestor / name).exists():
                return f"{name} can decide which {program} runs"
    return None


def _git_objection(folder: Path, place: CommandContext) -> str | None:
    for ancestor in (folder, *folder.parents):
        # A bare repository consists of ordinary files, including settings that run programs.
        if _like_a_repository(str(ancestor)):
            return f"{ancestor} is a bare repository, whose settings may run programs"
        # Git continues searching above a `.git` that is not a repository.
        if is_repository(ancestor / ".git"):
            break
    if not place.trusted and (setting := runs_programs(folder, place.working_dirs)):
        return f"this repository is not trusted and {setting}"
    return None


def _like_a_repository(folder: str) -> bool:
    """Judged by names alone: git accepts a HEAD that leads nowhere, and a file can point it to the rest elsewhere."""
    head, common, objects, references = (
        os.path.lexists(os.path.join(folder, name))  # noqa: PTH118
        for name in ("HEAD", "commondir", "objects", "refs")
    )
    return head or common or (objects and references)
