"""Checks of the machine: versions, the programs that agentcli starts, the limit of watched folders."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from agentcli import __version__
from agentcli.core.processes.own_programs import run_program
from agentcli.core.processes.programs import find_program
from agentcli.core.text.plaintext import plain_line
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding
from agentcli.tools.search.ripgrep import find_ripgrep

_FEW_WATCHES = 8_192
"""Fewer watched folders than this are too few for a large project."""
_VERSION_SECONDS = 5.0
_REPORTED_LIBRARIES = ("anthropic", "httpx2", "textual", "rich", "prompt_toolkit", "typer", "tree-sitter")
"""Libraries whose versions a bug report should name."""


def versions(_context: CheckContext) -> Iterator[Finding]:
    yield Finding("ok", "agentcli", f"{__version__}, in {Path(__file__).parent.parent}")
    yield Finding(
        "ok", "python", f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.release()}"
    )
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        required = [_name(line) for line in requires("agentcli") or () if "extra ==" not in line]
    except PackageNotFoundError:
        required = list(_REPORTED_LIBRARIES)
    found: dict[str, str] = {}
    for name in dict.fromkeys((*_REPORTED_LIBRARIES, *required)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    missing = [name for name in required if name not in found]
    text = ", ".join(f"{name} {found[name]}" for name in _REPORTED_LIBRARIES if name in found)
    if missing:
        advice = "Reinstall agentcli: pip install --force-reinstall agentcli."
        yield Finding("fail", "libraries", f"missing: {', '.join(missing)}", advice)
    else:
        yield Finding("ok", "libraries", text)


def programs(context: CheckContext) -> Iterator[Finding]:
    path, folders = context.environ.get("PATH"), context.environment.writable_dirs
    needed = (
        (
            "git",
            find_program("git", path, folders),
            "Install git: undo and the branch display need it.",
        ),
        (
            "ripgrep",
            find_ripgrep(context.environ, folders),
            "Install ripgrep, or reinstall agentcli, which includes it.",
        ),
        ("bash", find_program("bash", path, folders), "Install bash to run commands with it; until then sh is used."),
    )
    for name, found, advice in needed:
        if found is None:
            yield Finding("fail" if name == "ripgrep" else "warn", name, "not found", advice)
        else:
            yield Finding("ok", name, f"{_version(found)} ({found})")


def watches(_context: CheckContext) -> Iterator[Finding]:
    limit = Path("/proc/sys/fs/inotify/max_user_watches")
    if not limit.exists():
        return
    count = int(limit.read_text())
    if count < _FEW_WATCHES:
        advice = "Raise it: sysctl fs.inotify.max_user_watches=524288. Until then agentcli polls for changes."
        yield Finding("warn", "file watcher", f"only {count:,} folders can be watched", advice)
    else:
        yield Finding("ok", "file watcher", f"inotify, up to {count:,} folders")


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found.group() if found else requirement


def _version(program: str) -> str:
    done = run_program([program, "--version"], cwd="/", environ={"PATH": os.defpath}, seconds=_VERSION_SECONDS)
    lines = done.output.decode(errors="replace").splitlines()
    return plain_line(lines[0], 100) if lines else "version unknown"
