"""Trees of snapshots: parsers of git's output, and a reader of objects that git has not packed.

Objects stored by a session are rarely packed while it runs, and an undo reads dozens of them: a git process for each
lookup takes longer than reading. `LooseObjects` raises `NotLoose` if git must be used instead: an object is packed,
missing or damaged, or there are too many. It blocks; call it in a thread.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentcli.core.files.bounded_read import read_bounded
from agentcli.core.frozen import frozen
from agentcli.workspace.base import ChangeKind
from agentcli.workspace.git import EMPTY_TREE


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

    def turned(self) -> Difference:
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


_MAX_OBJECT_SIZE = 1 << 30
_MAX_TREES = 500
"""Maximum trees read for one lookup. Git reads larger numbers faster."""
_FOLDER = "40000"
_REPOSITORY = "160000"

_Tree = dict[bytes, TreeEntry]


class NotLoose(Exception):
    """An object cannot be read without git."""


class LooseObjects:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def compare(self, before: str, after: str) -> dict[str, Difference]:
        """The differences between two trees by path, in git's order."""
        found = dict(_TreeReader(self).differences(b"", before, after))
        return {os.fsdecode(path): found[path] for path in sorted(found)}

    def entries(self, tree: str, paths: Sequence[str]) -> dict[str, TreeEntry]:
        """Those of `paths` that are files or links in a tree."""
        reader = _TreeReader(self)
        found = {path: reader.entry(tree, os.fsencode(path)) for path in paths}
        return {path: entry for path, entry in found.items() if entry is not None and entry.mode != _FOLDER}

    def tree(self, oid: str) -> _Tree:
        if oid == EMPTY_TREE:
            return {}
        content = self._content(oid, b"tree")
        entries: _Tree = {}
        place = 0
        while (end := content.find(b"\0", place)) >= 0:
            mode, _space, name = content[place:end].partition(b" ")
            place = end + 21
            entries[name] = TreeEntry(mode.decode("ascii"), content[end + 1 : place].hex())
        return entries

    def _content(self, oid: str, kind: bytes) -> bytes:
        try:
            stored = zlib.decompress(read_bounded(self._place(oid), _MAX_OBJECT_SIZE) or b"")
        except zlib.error as error:
            raise NotLoose(oid) from error
        header, _end, content = stored.partition(b"\0")
        if header != b"%s %d" % (kind, len(content)):
            raise NotLoose(oid)
        return content

    def _place(self, oid: str) -> Path:
        return self._folder / oid[:2] / oid[2:]


class _TreeReader:
    """One lookup in trees. Reads each of them once."""

    def __init__(self, objects: LooseObjects) -> None:
        self._objects = objects
        self._read: dict[str, _Tree] = {}

    def differences(self, folder: bytes, before: str, after: str) -> Iterator[tuple[bytes, Difference]]:
        was, became = self._tree(before), self._tree(after)
        for name in was.keys() | became.keys():
            old, new = was.get(name, ABSENT), became.get(name, ABSENT)
            if old == new:
                continue
            path = folder + name
            old_tree, new_tree = (one.oid if one.mode == _FOLDER else EMPTY_TREE for one in (old, new))
            if old_tree != new_tree:
                yield from self.differences(path + b"/", old_tree, new_tree)
            old, new = (ABSENT if one.mode == _FOLDER else one for one in (old, new))
            if old != new:
                yield path, Difference(os.fsdecode(path), old, new)

    def entry(self, tree: str, path: bytes) -> TreeEntry | None:
        *folders, name = path.split(b"/")
        for folder in folders:
            below = self._tree(tree).get(folder, ABSENT)
            if below.mode != _FOLDER:
                return None
            tree = below.oid
        return self._tree(tree).get(name)

    def _tree(self, oid: str) -> _Tree:
        if oid not in self._read:
            if len(self._read) == _MAX_TREES:
                raise NotLoose(oid)
            entries = self._read[oid] = self._objects.tree(oid)
            if any(entry.mode == _REPOSITORY for entry in entries.values()):
                raise NotLoose(oid)
        return self._read[oid]
