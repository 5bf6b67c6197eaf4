"""Words about files, for the commands that deal with them: names as short as they are clear, counts, reports."""

from __future__ import annotations

import os

from agentcli.agent.engine import Engine
from agentcli.core.plaintext import plain_line
from agentcli.core.plural import counted
from agentcli.workspace.base import UndoReport

_MOST_LISTED = 50
_DONE = {"added": "created", "modified": "changed", "deleted": "deleted"}


def short_name(engine: Engine, path: str) -> str:
    """Relative to the first working directory where it lies in it, without anything that a terminal would obey."""
    root = str(engine.working_dirs[0])
    name = os.path.relpath(path, root) if path.startswith(f"{root.rstrip('/')}/") else path
    return plain_line(name.encode("utf-8", "replace").decode(), 300)


def undo_text(engine: Engine, report: UndoReport, again: bool) -> str:
    """What an undo or redo did, file by file. Signs say what happened to the files just now."""
    prompt = next((message for message in engine.messages if message.id == report.prompt_id), None)
    about = f" of “{plain_line(prompt.text, 60)}”" if prompt is not None else ""
    recreated = frozenset(report.recreated)
    alone = [kept for kept in report.kept if kept.kind is None]
    uncopied = [(kept, _DONE[kept.kind]) for kept in report.kept if kept.kind is not None]
    merged = frozenset(report.merged)
    groups = [
        (len(report.restored) - len(recreated) - len(merged), "changed again" if again else "restored"),
        (len(merged), f"{'changed again' if again else 'restored'} around your own changes"),
        (len(recreated), "created again" if again else "recreated"),
        (len(report.deleted), "removed again" if again else "removed"),
        (len(alone), "left alone"),
        (len(uncopied), "without a copy left as it is" if len(uncopied) == 1 else "without a copy left as they are"),
    ]
    parts = [f"{counted(number, 'file')} {what}" for number, what in groups if number]
    verb = "Redid" if again else "Undid"
    # What could not be done comes first: a long list is cut at its end.
    rows = [f"  ! {short_name(engine, kept.path)}: {done}; {kept.reason}" for kept, done in uncopied]
    rows += [f"  ! {short_name(engine, kept.path)}: left alone, {kept.reason}" for kept in alone]
    for path in report.restored:
        own = "  (your own changes stay)" if path in merged else ""
        rows.append(f"  {'A' if path in recreated else 'M'} {short_name(engine, path)}{own}")
    rows += [f"  D {short_name(engine, path)}" for path in report.deleted]
    lines = [f"{verb} the changes{about}: {', '.join(parts) or 'no file had to be changed'}.", *_cut(rows)]
    if any(kept.is_open for kept in report.kept):
        name = "redo" if again else "undo"
        lines.append(
            f"To decide about files left alone: /{name} keep leaves your lines, /{name} replace puts the version "
            f"{'after' if again else 'before'} the prompt in their place."
        )
    if report.text:
        lines.append(plain_line(report.text, 500))
    return "\n".join(lines)


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _MOST_LISTED else [*lines[:_MOST_LISTED], f"  and {len(lines) - _MOST_LISTED} more"]
