"""Which snapshots belong to which submission of a session, kept on disk so that a later process can undo too.

One file of JSON lines per session, appended to as things happen. A line that cannot be read is skipped: at worst a
submission cannot be undone. Owns the file and its form; takes no snapshots.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.core.bounded_json import parse_json
from agentcli.core.bounded_read import read_bounded
from agentcli.workspace.base import Snapshot

Roots = dict[str, Snapshot]


@dataclass(slots=True)
class Submission:
    """The folders before and after one prompt. `calls` are the states before each call, for going back to any."""

    number: int
    prompt_id: str
    before: Roots = field(default_factory=dict)
    after: Roots | None = None
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Sentences about what no copy was kept of."""
    undone: bool = False
    dropped: bool = False
    """Undone, and then something else was changed: it cannot be done again."""

    @property
    def changed(self) -> bool:
        return self.after is not None and any(self.after.get(root) != was for root, was in self.before.items())


_LARGEST = 64 * 1024 * 1024
"""Bytes of one session's notes: more than a million submissions."""


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.submissions: list[Submission] = []

    def inherit(self, other: Path) -> None:
        """Begin with what another session has noted, unless there are notes already."""
        with contextlib.suppress(OSError), self._path.open("xb") as stream:
            self._path.chmod(0o600)
            stream.write(read_bounded(other, _LARGEST) or b"")

    def load(self) -> None:
        for line in (read_bounded(self._path, _LARGEST) or b"").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self._apply(parse_json(line))

    def begin(self, prompt_id: str) -> Submission:
        number = self.submissions[-1].number + 1 if self.submissions else 1
        submission = Submission(number, prompt_id)
        self.submissions.append(submission)
        return submission

    def note_before(self, submission: Submission, roots: Mapping[str, Snapshot]) -> None:
        self._keep(submission, "before", prompt=submission.prompt_id, roots=_roots_to_json(roots))

    def note_call(self, submission: Submission, call_id: str, trees: dict[str, str]) -> None:
        if not submission.calls or submission.calls[-1][1] != trees:
            self._keep(submission, "call", call=call_id, trees=trees)

    def note_after(self, submission: Submission, roots: Mapping[str, Snapshot]) -> None:
        self._keep(submission, "after", roots=_roots_to_json(roots))

    def note_missed(self, submission: Submission, text: str) -> None:
        if text not in submission.missed:
            self._keep(submission, "missed", text=text)

    def note_undone(self, submission: Submission, undone: bool) -> None:
        self._keep(submission, "undone" if undone else "redone")

    def _keep(self, submission: Submission, kind: str, **fields: Any) -> None:
        record = {"type": kind, "n": submission.number, **fields}
        self._apply(record)
        data = json.dumps(record).encode() + b"\n"
        # Without the file an undo still works in this process.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)

    def _apply(self, record: dict[str, Any]) -> None:
        number = int(record["n"])
        submission = next((one for one in reversed(self.submissions) if one.number == number), None)
        if submission is None:
            submission = Submission(number, str(record.get("prompt", "")))
            self.submissions.append(submission)
        match record["type"]:
            case "before":
                submission.before |= _roots_from_json(record["roots"])
            case "call":
                submission.calls.append((str(record["call"]), dict(record["trees"])))
            case "after":
                submission.after = _roots_from_json(record["roots"])
                if submission.changed:
                    for earlier in self.submissions:
                        earlier.dropped = earlier.dropped or (earlier.undone and earlier is not submission)
            case "missed":
                submission.missed.append(str(record["text"]))
            case "undone":
                submission.undone = True
            case "redone":
                submission.undone = False

    # ------------------------------------------------------------------------------------------------- which one

    def open_ended(self) -> list[Submission]:
        """Submissions whose end nobody saw: the process was killed."""
        return [one for one in self.submissions if one.before and one.after is None]

    def to_undo(self) -> Submission | None:
        return next((one for one in reversed(self.submissions) if one.changed and not one.undone), None)

    def to_redo(self) -> Submission | None:
        return next((one for one in self.submissions if one.undone and not one.dropped), None)


def _roots_to_json(roots: Mapping[str, Snapshot]) -> dict[str, Any]:
    return {
        root: {
            "tree": snapshot.tree,
            "empty": sorted(snapshot.empty),
            "uncovered": dict(snapshot.uncovered),
            "nested": sorted(snapshot.nested),
        }
        for root, snapshot in roots.items()
    }


def _roots_from_json(data: Mapping[str, Any]) -> Roots:
    return {
        root: Snapshot(
            str(one["tree"]),
            frozenset(one.get("empty", ())),
            dict(one.get("uncovered", {})),
            frozenset(one.get("nested", ())),
        )
        for root, one in data.items()
    }
