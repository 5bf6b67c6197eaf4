"""Run git for agentcli itself, so that it runs no program that a repository configures.

Git has no option for that. Hooks, the file monitor, transports, signatures and submodules are turned off by settings
that override those of the repository, and `git_settings` turns off the filters and hooks that the repository names.
Settings of the user and the system are not read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.core.processes.own_programs import FinishedProgram, find_program, run_program

_SEARCH_PATH = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin"
_LIST_SECONDS = 2.0
GIT_ENVIRON: Mapping[str, str] = {
    "PATH": os.defpath,
    "HOME": os.devnull,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # Unlike the setting protocol.allow, a repository cannot override it for one transport.
    "GIT_ALLOW_PROTOCOL": "",
}
OWN_SETTINGS = (
    "core.hookspath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesfile=/dev/null",
    "core.excludesfile=/dev/null",
    "core.quotepath=false",
    "core.untrackedcache=false",
    "diff.ignoresubmodules=all",
    "diff.renames=false",
    "gc.auto=0",
    "log.showroot=true",
    "log.showsignature=false",
    "maintenance.auto=false",
    "safe.barerepository=explicit",
    "safe.directory=*",
    "submodule.recurse=false",
)
"""Keys are spelled as git lists them."""


@functools.lru_cache(maxsize=8)
def git_program(working_dirs: tuple[str, ...]) -> str | None:
    """The system's git; never one inside a working directory."""
    search_path = os.pathsep.join((_SEARCH_PATH, os.environ.get("PATH", "")))
    return find_program("git", search_path, map(Path, working_dirs))


def git_command(program: str, arguments: Sequence[str], settings: Sequence[str] = ()) -> list[str]:
    """The words that run git. `settings`: those of `git_settings` unless the command reads no file of a work tree."""
    return [program, "--no-pager", *(word for one in (*OWN_SETTINGS, *settings) for word in ("-c", one)), *arguments]


def git_settings(program: str, folder: Path | str) -> list[str]:
    """Settings that turn off the filters and hooks which the repository around a folder configures. Raises OSError.

    Includes can depend on the folder and the branch: list them where the command runs, and right before it.
    """
    listed = run_git(
        program, ("config", "-z", "--name-only", "--get-regexp", r"^(filter|hook)\."), folder, _LIST_SECONDS
    )
    if listed.code not in (0, 1):
        raise OSError("the repository's configuration cannot be read")
    names = {os.fsdecode(key).rpartition(".")[0] for key in listed.output.split(b"\0") if key.count(b".") > 1}
    if any("=" in name for name in names):
        # Git would take the part before the sign for the key.
        raise OSError("the repository's configuration names a filter with an equals sign")
    found = []
    for name in sorted(names):
        if name.startswith("hook."):
            found.append(f"{name}.enabled=false")
        else:
            found += [f"{name}.clean=", f"{name}.smudge=", f"{name}.process=", f"{name}.required=false"]
    return found


def run_git(
    program: str,
    arguments: Sequence[str],
    folder: Path | str,
    seconds: float,
    *,
    settings: Sequence[str] = (),
    input: bytes = b"",
    environ: Mapping[str, str] = GIT_ENVIRON,
) -> FinishedProgram:
    """Run git to its end. Blocking. Raises OSError; TimeoutError, which is one."""
    command = git_command(program, arguments, settings)
    return run_program(command, cwd=folder, environ=environ, seconds=seconds, input=input)
