"""What the model is told of an undo: it must not go on from files that are no longer what it saw."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.plaintext import plain_line
from agentcli.workspace.base import UndoReport

COMMAND_FAILED = "command_failed"
"""The terminal of a command that could not do what was asked."""
_MOST_NAMED = 20


def undo_note(report: UndoReport, again: bool) -> str:
    what = (
        "The user took the undo back: the changes you had made to these files are there again."
        if again
        else "The user undid the changes that you made to files for their last request that was not undone yet."
    )
    parts = [what]
    if report.restored:
        parts.append(f"{'Changed again' if again else 'As before'}: {_named(report.restored)}.")
    if report.deleted:
        parts.append(f"{'Deleted again' if again else 'Gone again'}: {_named(report.deleted)}.")
    if report.kept:
        parts.append(f"Left as they are: {_named([kept.path for kept in report.kept])}.")
    parts.append("Read a file again before you rely on what you know of it.")
    return f"[{' '.join(parts)}]"


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(plain_line(path, 300) for path in paths[:_MOST_NAMED])
    return shown if len(paths) <= _MOST_NAMED else f"{shown} and {len(paths) - _MOST_NAMED} more"
