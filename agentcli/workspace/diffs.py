"""Diffs of the working directories: the agent's changes over submissions and per command, and the tree against HEAD.

A submission's changes are the difference between the snapshots before and after it; changes that the user made between
submissions are in neither. A file that several submissions changed is compared once, from before the first to after the
last. If the user changed it in between, or while a submission ran, each period is compared separately, so that no
change of the user is shown. What single commands changed is compared in the background: no call waits for it.

To compare with HEAD, git runs with a separate repository folder that borrows the objects: it has the commit, a copy of
the index (so that unchanged files are not read) and the exclude patterns, but no configuration, hooks, filters, drivers
or refs of the repository. Nothing is written into the repository or the work tree.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.files.access import read_bounded, read_start
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.core.text.unified_diff import parse_files
from agentcli.workspace.base import (
    CallChanges,
    ChangeKind,
    FileChange,
    FolderDiff,
    Snapshot,
    SnapshotError,
    WorkspaceDiff,
)
from agentcli.workspace.file_undo import agent_steps
from agentcli.workspace.git import EMPTY_TREE, Git, find_git, head_commit
from agentcli.workspace.journal import EntryChange, UserChanges
from agentcli.workspace.listing import list_uncovered_changes, why_uncovered
from agentcli.workspace.restore import parents
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import Difference, TreeEntry

SubmissionSpan = tuple[Snapshot, Snapshot, Sequence[UserChanges]]
"""A folder before and after a submission, and the user's changes meanwhile."""
Stretch = tuple[TreeEntry, TreeEntry]
DIFF_LIMIT = 32 * 1024 * 1024
"""Maximum bytes of a diff."""


async def agent_diff(shadow: Shadow, spans: Sequence[SubmissionSpan]) -> FolderDiff:
    """The diff of one folder over these submissions. Raises `SnapshotError`."""
    stretches: dict[str, list[Stretch]] = {}
    notes: dict[str, FileChange] = {}
    for before, after, users in spans:
        trees, own = _separate_own(await shadow.compare(before.tree, after.tree), users)
        for path, steps in own.items():
            if not is_without_copy(path, before, after):
                for step in steps:
                    _extend(stretches.setdefault(path, []), step)
        for change in await changes_without_lines(shadow, before, after, trees):
            _merge(notes, change)
    parts: list[str] = []
    room = DIFF_LIMIT
    for layer in _layers(stretches):
        old, new = await _trees(shadow, layer)
        if room > 0:
            parts.append(await shadow.patch(old, new, room))
            room -= len(parts[-1].encode())
    return FolderDiff(str(shadow.root), "".join(parts), tuple(notes.values()), room <= 0)


async def agent_changes(shadow: Shadow, span: SubmissionSpan) -> list[FileChange]:
    """The changes of one submission. Raises `SnapshotError`."""
    before, after, users = span
    trees, _own_steps = _separate_own(await shadow.compare(before.tree, after.tree), users)
    found = [
        FileChange(str(shadow.root / path), one.kind)
        for path, one in trees.items()
        if not is_without_copy(path, before, after)
    ]
    return sorted((*found, *await changes_without_lines(shadow, before, after, trees)), key=lambda one: one.path)


async def _trees(shadow: Shadow, layer: Mapping[str, Stretch]) -> tuple[str, str]:
    old = await shadow.tree_of({path: one for path, (one, _new) in layer.items() if one.exists})
    new = await shadow.tree_of({path: one for path, (_old, one) in layer.items() if one.exists})
    return old, new


def _separate_own(
    trees: Mapping[str, Difference], users: Sequence[UserChanges]
) -> tuple[dict[str, Difference], dict[str, list[EntryChange]]]:
    """The files that the submission changed, and its own steps in each, without the user's."""
    steps = {
        path: agent_steps(one.before, one.after, [user.files[path] for user in users if path in user.files])
        for path, one in trees.items()
    }
    own = {path: found for path, found in steps.items() if found}
    return {path: one for path, one in trees.items() if path in own}, own


def is_without_copy(path: str, before: Snapshot, after: Snapshot) -> bool:
    """Whether a path belongs to a nested repository, or one of the snapshots has no copy of it."""
    return before.is_foreign(path) or path in before.uncovered or path in after.uncovered


async def changes_without_lines(
    shadow: Shadow, before: Snapshot, after: Snapshot, trees: Mapping[str, Difference]
) -> list[FileChange]:
    """Changed files without a copy."""
    root = shadow.root
    found = []
    for path, kind in (await in_thread(partial(list_uncovered_changes, root, before, after, trees))).items():
        note = why_uncovered((before.uncovered.get(path), after.uncovered.get(path)))
        found.append(FileChange(str(root / path), kind, note))
    return found


def _extend(stretches: list[Stretch], step: EntryChange) -> None:
    """Add a change of a path; join it with the previous one if it starts where that ended."""
    before, after = step
    if stretches and _same(stretches[-1][1], before):
        stretches[-1] = stretches[-1][0], after
    else:
        stretches.append((before, after))


def _same(one: TreeEntry, other: TreeEntry) -> bool:
    return one == other or not (one.exists or other.exists)


def _layers(stretches: Mapping[str, Sequence[Stretch]]) -> list[dict[str, Stretch]]:
    """Group periods into pairs of trees: each path once, and no file where another path has a folder."""
    layers: list[dict[str, Stretch]] = []
    folders: list[set[str]] = []
    for path, found in sorted(stretches.items()):
        above = set(parents(path))
        place = 0
        for stretch in found:
            if _same(*stretch):
                continue
            while place < len(layers) and (path in folders[place] or not above.isdisjoint(layers[place])):
                place += 1
            if place == len(layers):
                layers.append({})
                folders.append(set())
            layers[place][path] = stretch
            folders[place] |= above
            place += 1
    return layers


def _merge(notes: dict[str, FileChange], change: FileChange) -> None:
    known = notes.pop(change.path, None)
    kind: ChangeKind = change.kind
    if known is not None and known.kind == "added":
        if kind == "deleted":
            return
        kind = "added"
    notes[change.path] = FileChange(change.path, kind, change.note)


SHOWN_CHARACTERS = 64 * 1024
"""Characters of a diff that are kept."""
_COMPARED_BYTES = 1024 * 1024
"""Bytes of a diff that are read, for the numbers of lines."""

Find = Callable[[Path], Awaitable[Shadow]]


class CallComparisons:
    """Compares folders before and after a command. `find` returns the shadow repository of a folder."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: list[CallChanges] = []

    def compare(self, call_id: str, before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> bool:
        """Start comparing all files; returns at once whether any has changed."""
        changed = [root for root in before.keys() & after.keys() if before[root].tree != after[root].tree]
        if changed:
            self._start(self._diffs(call_id, {root: (before[root].tree, after[root].tree) for root in sorted(changed)}))
        return bool(changed)

    def take(self) -> list[CallChanges]:
        """Take the changes that are ready, each once."""
        ready, self._ready = self._ready, []
        return ready

    async def finish(self, seconds: float) -> None:
        """Wait for the comparisons; those that take longer are dropped."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            await self.aclose()

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._tasks))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(work, name="compare a command's files")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _diffs(self, call_id: str, trees: Mapping[str, tuple[str, str]]) -> None:
        parts = []
        try:
            for root, (old, new) in trees.items():
                if old != new:
                    parts.append(await (await self._find(Path(root))).patch(old, new, _COMPARED_BYTES))
        except (SnapshotError, OSError):
            return
        if changes := await in_thread(lambda: _count_changes(call_id, "".join(parts))):
            self._ready.append(changes)


def _count_changes(call_id: str, diff: str) -> CallChanges | None:
    files = [file for file in parse_files(diff) if file.path]
    if not files:
        return None
    end = diff.rfind("\n", 0, SHOWN_CHARACTERS) + 1 if len(diff) > SHOWN_CHARACTERS else len(diff)
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    return CallChanges(call_id, len(files), added, removed, diff[:end], len(diff) > end)


_SECONDS = 60.0
_MAX_INDEX_SIZE = 512 * 1024 * 1024
_MAX_PATTERNS = 100_000
_EMPTY_BLOB = {40: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
               64: "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"}  # fmt: skip
_ATTRIBUTES = "* !diff -filter -ident -working-tree-encoding\n"
_SETTINGS = ("diff.ignoreSubmodules=dirty", "diff.renames=true", "core.bigFileThreshold=5m")
"""Only the commits of submodules are compared: to look inside, git would run there and obey their settings."""
_DIFF = (
    *("diff", "-p", "-M", "--no-textconv", "--no-ext-diff", "--no-color", "--no-prefix"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
NO_REPOSITORY = "This folder is not in a git repository."


async def diff_against_head(folders: Sequence[Path], search_path: str | None) -> WorkspaceDiff:
    """Diffs of the work trees that contain these folders. Raises `SnapshotError` and OSError."""
    program = find_git(search_path, folders)
    if program is None:
        raise SnapshotError("git was not found; install it to compare with HEAD")
    tops = await in_thread(
        lambda: list(dict.fromkeys(top for one in folders if (top := repository_root(one)) is not None))
    )
    if not tops:
        return WorkspaceDiff(problem=NO_REPOSITORY)
    found = []
    for top in tops:
        borrowed = Path(await in_thread(partial(tempfile.mkdtemp, prefix="agentcli-diff-")))
        try:
            found.append(await _diff(program, top, borrowed))
        finally:
            await in_thread(partial(shutil.rmtree, borrowed, ignore_errors=True))
    return WorkspaceDiff(tuple(one for one in found if one.text))


async def _diff(program: str, top: Path, borrowed: Path) -> FolderDiff:
    commit = await in_thread(partial(_prepare, top, borrowed))
    git = Git(program, borrowed, top, top, borrowed / "index")
    settings = (*_SETTINGS, *await _line_ends(git, top))
    await _refresh(git, commit, settings)
    await _add_untracked(git, settings, len(commit or EMPTY_TREE))
    output = await git.run(
        *_DIFF, commit or EMPTY_TREE, "--", seconds=_SECONDS, settings=settings, cut=DIFF_LIMIT
    )  # fmt: skip
    return FolderDiff(str(top), output.decode("utf-8", "replace"), cut=len(output) >= DIFF_LIMIT)


def _prepare(top: Path, borrowed: Path) -> str | None:
    """Create the repository folder; return the commit that HEAD names, None before the first one. Blocking."""
    own, shared = git_folder(top)
    if (shared / "reftable").exists():
        raise SnapshotError("the repository stores its refs as a reftable, which is not supported")
    commit = head_commit(top)
    for name in ("objects/info", "refs/heads", "info"):
        (borrowed / name).mkdir(parents=True)
    version, extensions = 0, ""
    if commit is not None and len(commit) == 64:
        version, extensions = 1, "[extensions]\n\tobjectFormat = sha256\n"
    config = f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{extensions}"
    ignore_files = (shared / "info" / "exclude", Path("~/.config/git/ignore").expanduser())
    exclude = "\n".join(read_start(path, _MAX_PATTERNS) for path in ignore_files)
    for place, text in (
        ("HEAD", f"{commit}\n" if commit else "ref: refs/heads/none\n"),
        ("config", config),
        ("objects/info/alternates", f"{os.fsdecode(os.path.realpath(shared / 'objects'))}\n"),
        ("info/attributes", _ATTRIBUTES),
        ("info/exclude", exclude),
    ):
        (borrowed / place).write_bytes(os.fsencode(text) if place.endswith("alternates") else text.encode())
    for source in (own / "index", *own.glob("sharedindex.*")):
        data = read_bounded(source, _MAX_INDEX_SIZE)
        if isinstance(data, bytes):
            (borrowed / source.name).write_bytes(data)
            # Git reads files that changed no earlier than the index. A newer copy of it would hide such a change.
            written = source.stat()
            os.utime(borrowed / source.name, ns=(written.st_atime_ns, written.st_mtime_ns))
    return commit


async def _line_ends(git: Git, top: Path) -> list[str]:
    """The repository's line-ending settings, without which every line of a file may differ."""
    config = str(git_folder(top)[1] / "config")
    names = ("core.autocrlf", "core.eol")
    found = []
    for name in names:
        # Reads this one file; includes are not followed.
        arguments = ("config", "--file", config, "--get", name)
        value = (await git.run(*arguments, seconds=_SECONDS, fine=(0, 1, 2, 3, 128))).decode("utf-8", "replace").strip()
        if value.lower() in ("true", "false", "input", "lf", "crlf", "native"):
            found.append(f"{name}={value}")
    return found


async def _refresh(git: Git, commit: str | None, settings: Sequence[str]) -> None:
    """Compare the index with the disk; a missing or unreadable index is created from the commit."""
    if git.index.exists():
        try:
            await git.run("update-index", "-q", "--refresh", seconds=_SECONDS, settings=settings, fine=(0, 1))
            return
        except SnapshotError:
            await in_thread(git.index.unlink)
    if commit is not None:
        await git.run("read-tree", commit, seconds=_SECONDS)
        await git.run("update-index", "-q", "--refresh", seconds=_SECONDS, settings=settings, fine=(0, 1))


async def _add_untracked(git: Git, settings: Sequence[str], digits: int) -> None:
    """Add untracked files to the copy of the index, because git compares only files in the index with HEAD."""
    output = await git.run("ls-files", "-z", "-o", "--exclude-standard", seconds=_SECONDS, settings=settings)

    def readable() -> list[bytes]:
        # A name that ends in a slash is a nested repository, whose files are not part of this one.
        names = [name for name in output.split(b"\0") if name and not name.endswith(b"/")]
        paths = [(name, git.work_tree / os.fsdecode(name)) for name in names]
        return [name for name, path in paths if path.is_symlink() or os.access(path, os.R_OK)]

    names = await in_thread(readable)
    if names:
        rows = b"".join(b"100644 %s\t%s\0" % (_EMPTY_BLOB[digits].encode(), name) for name in names)
        await git.run("update-index", "-z", "--index-info", input=rows, seconds=_SECONDS, settings=settings)
