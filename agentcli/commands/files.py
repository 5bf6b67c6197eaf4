"""Words about files, for the commands that deal with them: names as short as they are clear, counts, reports."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentcli.agent.engine import Engine
from agentcli.core.plaintext import plain_line
from agentcli.workspace.base import FileChange, UndoReport

_MOST_LISTED = 50
_SIGNS = {"added": "A", "modified": "M", "deleted": "D"}


def short_name(engine: Engine, path: str) -> str:
    """Relative to the first working directory where it lies in it, without anything that a terminal would obey."""
    root = str(engine.working_dirs[0])
    name = os.path.relpath(path, root) if path.startswith(f"{root.rstrip('/')}/") else path
    return plain_line(name.encode("utf-8", "replace").decode(), 300)


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def undo_text(engine: Engine, report: UndoReport, verb: str) -> str:
    """What an undo or redo did, file by file."""
    prompt = next((message for message in engine.messages if message.id == report.prompt_id), None)
    about = f" of “{plain_line(prompt.text, 60)}”" if prompt is not None else ""
    parts = []
    if report.restored:
        parts.append(f"{counted(len(report.restored), 'file')} put back")
    if report.deleted:
        parts.append(f"{counted(len(report.deleted), 'file')} removed")
    if report.kept:
        parts.append(f"{counted(len(report.kept), 'file')} left alone")
    lines = [f"{verb} the changes{about}: {', '.join(parts) or 'only folders were concerned'}."]
    lines += [f"  M {short_name(engine, path)}" for path in report.restored]
    lines += [f"  D {short_name(engine, path)}" for path in report.deleted]
    lines += [f"  ! {short_name(engine, kept.path)}: left alone, {kept.reason}" for kept in report.kept]
    if report.text:
        lines.append(plain_line(report.text, 500))
    return "\n".join(_cut(lines))


def change_lines(engine: Engine, changes: Sequence[FileChange]) -> list[str]:
    rows = []
    for change in changes:
        numbers = "binary" if change.added is None else f"+{change.added} −{change.removed or 0}"
        rows.append(f"  {_SIGNS[change.kind]} {short_name(engine, change.path)}  {numbers}")
    return _cut(rows)


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _MOST_LISTED else [*lines[:_MOST_LISTED], f"  and {len(lines) - _MOST_LISTED} more"]
