"""Checks of settings files, folder trust, agentcli's own folders, and stored sessions."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentcli.config.paths import project_folder
from agentcli.core.files.bounded_read import open_regular
from agentcli.core.text.format import byte_size
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding, Status
from agentcli.session.find import list_sessions
from agentcli.session.paths import sessions_dir

_LEAST_FREE = 200_000_000
_LOOKED_AT = 300
"""Most sessions whose last byte is checked, newest first."""
_VARIABLES = {"configuration": "CONFIG_DIR", "state": "STATE_DIR", "cache": "CACHE_DIR"}


def configuration(context: CheckContext) -> Iterator[Finding]:
    problems = context.environment.settings.problems
    for problem in problems:
        status: Status = "warn" if problem.level == "warning" else "ok"
        advice = "Fix that file; `agentcli config` shows the active settings." if status == "warn" else ""
        yield Finding(status, "settings", problem.text, advice)
    if not problems:
        yield Finding("ok", "settings", "no problems; `agentcli config` shows each value and its source")


def trust(context: CheckContext) -> Iterator[Finding]:
    """Trust of the folder's own settings, if it has any."""
    folder = project_folder(context.environment.cwd)
    if not any((folder / name).exists() for name in ("settings.json", "settings.local.json")):
        return
    if context.environment.is_trusted():
        yield Finding("ok", "trust", f"the settings in {folder} are trusted and active")
    else:
        advice = "`agentcli trust` shows what they do and asks whether to trust them."
        yield Finding(
            "ok", "trust", f"the settings in {folder} are not trusted: only their deny and ask rules apply", advice
        )


def folders(context: CheckContext) -> Iterator[Finding]:
    for name, folder in (
        ("configuration", context.paths.config_dir),
        ("state", context.paths.state_dir),
        ("cache", context.paths.cache_dir),
    ):
        if folder is None:
            yield Finding("warn", name, "no folder available", "Set HOME; without it nothing is saved.")
            continue
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        problem = _unwritable(existing)
        if problem:
            advice = f"Make {existing} writable, or set another folder: AGENTCLI_{_VARIABLES[name]}."
            yield Finding("warn", name, f"{folder}: {problem}", advice)
            continue
        free = shutil.disk_usage(existing).free
        text = f"{folder}, {byte_size(free)} free"
        if free < _LEAST_FREE:
            yield Finding("warn", name, text, "Free some space: sessions are not saved on a full disk.")
        else:
            yield Finding("ok", name, text)


def sessions(context: CheckContext) -> Iterator[Finding]:
    state = context.paths.state_dir
    root = sessions_dir(state) if state else None
    if state is None or root is None or not root.is_dir():
        yield Finding("ok", "sessions", "none stored yet")
        return
    status = root.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        yield Finding("warn", "sessions", f"other users can read {root}", f"Make it private: chmod 700 '{root}'.")
    stored = list_sessions(state)
    here = sum(1 for session in stored if session.cwd == str(context.environment.cwd))
    taken = sum(session.size for session in stored)
    cut = [session for session in stored[:_LOOKED_AT] if _is_cut_off(session.path)]
    count = f"{len(stored):,} stored, {here:,} of this folder, {byte_size(taken)}"
    if cut:
        which = ", ".join(session.session_id[:8] for session in cut[:5])
        text = f"{count}; {len(cut)} of them end in the middle of a line: {which}"
        yield Finding("ok", "sessions", text, "They are repaired when you resume them; one may be in use right now.")
    else:
        yield Finding("ok", "sessions", count)


def _is_cut_off(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False  # deleted since it was listed, or empty


def _unwritable(folder: Path) -> str:
    """Why no file can be created in a folder; "" if one can."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".doctor-", dir=folder)
    except OSError as error:
        return error.strerror or "not writable"
    os.close(descriptor)
    Path(name).unlink()
    return ""
