"""Entries of the trees of snapshots, and parsers of git's output about them."""

from __future__ import annotations

import os

from agentcli.core.frozen import frozen
from agentcli.workspace.base import ChangeKind


@frozen
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


@frozen
class Difference:
    path: str
    before: TreeEntry
    after: TreeEntry

    def reverse(self) -> Difference:
        return Difference(self.path, self.after, self.before)

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
    """Parse `diff-tree -z --raw`."""
    fields = output.split(b"\0")
    found: dict[str, Difference] = {}
    for about, name in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _status = about[1:].decode().split(" ")
        path = os.fsdecode(name)
        found[path] = Difference(path, TreeEntry(old_mode, old), TreeEntry(new_mode, new))
    return found


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
