"""Parsers for git's output about trees. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass

from agentcli.workspace.base import ChangeKind


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A path in a snapshot; `mode` is "000000" if it does not exist there."""

    mode: str
    oid: str

    @property
    def exists(self) -> bool:
        return self.mode != "000000"

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, not a link."""
        return self.mode.startswith("100")


ABSENT = TreeEntry("000000", "0" * 40)


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    before: TreeEntry
    after: TreeEntry
    added: int | None = None
    removed: int | None = None

    def turned(self) -> Difference:
        return Difference(self.path, self.after, self.before, self.removed, self.added)

    @property
    def kind(self) -> ChangeKind:
        if not self.before.exists:
            return "added"
        return "modified" if self.after.exists else "deleted"


def tree_entries(output: bytes) -> dict[str, TreeEntry]:
    """Parse `ls-tree -z`: files and links by path."""
    found = {}
    for row in output.split(b"\0"):
        about, tab, name = row.partition(b"\t")
        if tab and about.split(b" ")[1] == b"blob":
            mode, _kind, oid = about.decode().split(" ")
            found[os.fsdecode(name)] = TreeEntry(mode, oid)
    return found


def differences(output: bytes) -> dict[str, Difference]:
    """Parse `diff-tree -z --raw`, with or without `--numstat` after it."""
    fields = output.split(b"\0")
    found: dict[str, Difference] = {}
    place = 0
    while place < len(fields):
        field = fields[place]
        if field.startswith(b":") and place + 1 < len(fields):
            old_mode, new_mode, old, new, _status = field[1:].decode().split(" ")
            path = os.fsdecode(fields[place + 1])
            found[path] = Difference(path, TreeEntry(old_mode, old), TreeEntry(new_mode, new))
            place += 2
            continue
        counts = field.split(b"\t", 2)
        if len(counts) == 3 and (path := os.fsdecode(counts[2])) in found:
            whole = found[path]
            found[path] = Difference(path, whole.before, whole.after, _count(counts[0]), _count(counts[1]))
        place += 1
    return found


def _count(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def blobs(output: bytes) -> list[bytes]:
    """Parse contents from `cat-file --batch`; stops at the first entry that is not a blob."""
    contents: list[bytes] = []
    place = 0
    while (end := output.find(b"\n", place)) >= 0:
        header = output[place:end].split(b" ")
        if len(header) != 3 or header[1] != b"blob":
            break
        size = int(header[2])
        contents.append(output[end + 1 : end + 1 + size])
        place = end + size + 2
    return contents
