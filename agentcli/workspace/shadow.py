"""One folder's shadow repository: take snapshots of the folder, compare them and read old content.

Owns everything below its own folder in the state directory, and writes nothing into the folder it tracks but entries of
its git index (`write_index`). It stores content, links and the executable bit of files, and empty folders; other
permission bits are restored with a deleted file. It does not store folders that git ignores and a tool can rebuild,
ignored files beyond a limit that no call has named, files over the size limit, or `.git` itself. Each process has its
own index (two agents may work in one folder); objects are shared. A snapshot lists the repositories inside the folder
(`nested`) without their files; each of them gets its own shadow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.files.access import is_below, parse_json, read_bounded
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.workspace import listing
from agentcli.workspace.base import Snapshot, SnapshotError, TooManyFiles
from agentcli.workspace.git import EMPTY_TREE, Git
from agentcli.workspace.listing import (
    CopyLimits,
    FileListing,
    IgnoredFiles,
    folders_among,
    may_be_output,
    parse_listing,
    sort_files,
    sort_folders,
    sort_ignored,
)
from agentcli.workspace.restore import OldFile, unusual_modes
from agentcli.workspace.trees import Difference, TreeEntry, blobs, differences, tree_entries

MAX_FILES = 50_000
_MANY = 64
"""From this many new files on, one pack is written instead of loose objects: a tenth of the data at first."""
_AT_ONCE = 5_000
"""Files per index update. Updates that finished before a timeout need not be repeated."""
_LARGE = ("core.looseCompression=0",)
"""Large files are stored uncompressed: compressing takes three times as long, and most are compressed already."""
_NO_TEXT = ("core.bigFileThreshold=5m",)
"""Larger files are neither compared by line nor stored as deltas, which takes minutes."""
_MAX_PATHSPECS = 200
_MAX_MODES = 10_000
_MAX_MODES_SIZE = _MAX_MODES * 5_000
_BLOBS_AT_ONCE = 20
"""Blobs read at once: at most 200 MB, because larger files share a limit."""
_USUAL_SECONDS = 60.0
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !eol !diff !merge\n"
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfilemode = true\n"


class Shadow:
    def __init__(self, program: str, root: Path, place: Path, index_name: str, leave_out: Path | None = None) -> None:
        self.root = root
        self.place = place
        top = repository_root(root) or root  # For the ignore files above the folder.
        self._prefix = "" if top == root else f"{root.relative_to(top).as_posix()}/"
        self._git = Git(program, place, top, root, place / index_name)
        self._leave_out = leave_out
        self._last_tree: str | None = None
        self._was_reset = False
        self._modes: dict[str, int] = {}
        self.limits = CopyLimits(listing.LARGE_TOGETHER)
        self._amending = asyncio.Lock()
        self._named: set[str] = set()
        """Ignored files in the index; git lists their changes."""
        self.ignored_files = IgnoredFiles()
        """Those found by the last snapshot that looked for them."""

    # ------------------------------------------------------------------------------------------------- snapshots

    def open(self) -> None:
        """Create the repository without `git init`, which would use templates and the user's configuration."""
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (self.place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place.chmod(0o700)
        for name, text in (
            ("HEAD", "ref: refs/heads/none\n"),
            ("config", _CONFIG),
            ("info/attributes", _ATTRIBUTES),
            ("info/exclude", self._excludes()),
            ("folder", f"{os.fsencode(self.root).decode('utf-8', 'replace')}\n"),
        ):
            _write(self.place / name, text)
        with contextlib.suppress(OSError, ValueError):
            stored = parse_json(read_bounded(self.place / "modes.json", _MAX_MODES_SIZE) or b"{}")
            self._modes = {str(path): int(mode) for path, mode in stored.items()}
        seed = self.place / "index"
        if not self._git.index.exists() and seed.exists():
            shutil.copyfile(seed, self._git.index)

    def _excludes(self) -> str:
        lines = []
        # The user's local exclude patterns.
        own = read_bounded(self._git.work_tree / ".git" / "info" / "exclude", 100_000, beginning=True)
        lines.append((own or b"").decode("utf-8", "surrogateescape"))
        if self._leave_out is not None and self._leave_out.is_relative_to(self._git.work_tree):
            lines.append(f"/{self._leave_out.relative_to(self._git.work_tree).as_posix()}/")
        return "\n".join(lines) + "\n"

    async def take(self, seconds: float, forced: Iterable[str] = (), with_ignored: bool = False) -> Snapshot:
        """Take a snapshot of the folder. Raises `SnapshotError`.

        `forced`: paths to store even if ignored. `with_ignored`: also store new ignored files, within limits; those
        stored once are part of every snapshot.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._take_repaired(forced, with_ignored)
        except TimeoutError as error:
            raise SnapshotError("a snapshot takes too long") from error

    async def _take_repaired(self, forced: Iterable[str], with_ignored: bool) -> Snapshot:
        """Take a snapshot with a new index, once, because a crash may have left a broken one."""
        try:
            return await self._take(forced, with_ignored)
        except TooManyFiles:
            raise
        except SnapshotError:
            if self._was_reset:
                raise
            self._was_reset = True
        self._last_tree = None
        self._named.clear()
        self.limits = CopyLimits(listing.LARGE_TOGETHER)
        await in_thread(lambda: self._git.index.unlink(missing_ok=True))
        return await self._take(forced, with_ignored)

    def make_root(self) -> None:
        """Recreate the folder of a removed nested repository, unless a link leads elsewhere. Raises OSError."""
        if not self.root.exists() and os.path.realpath(self.root) == str(self.root):
            self.root.mkdir(parents=True)

    async def _take(self, forced: Iterable[str], with_ignored: bool) -> Snapshot:
        if not await in_thread(self.root.is_dir):
            self._last_tree = None
            return Snapshot(EMPTY_TREE)
        listed = await self._list_changes()
        folders = await in_thread(lambda: sort_folders(self.root, self._without_own(listed.folders)))
        new = list(listed.others)
        if folders.filled:
            narrow = folders.filled if len(folders.filled) <= _MAX_PATHSPECS else []
            found = parse_listing(await self._list("--", *narrow))
            new = sorted({*new, *found.others})
            folders.nested += [name for name in found.folders if name not in folders.nested]
        new = self._without_own(new)
        if with_ignored:
            self.ignored_files = await self._list_ignored(MAX_FILES - _entries(self._git.index) - len(new))
            forced = {*forced, *self.ignored_files.files}
        folders.nested = list({*folders.nested, *self.ignored_files.nested})
        # They may be ignored no longer, but were there before.
        left_out = (*self.ignored_files.rebuildable, *self.ignored_files.uncovered)
        new = [path for path in new if not is_below(path, left_out)]
        named = [path for path in forced if path not in self._named]
        new = [*new, *named]
        limits = self.limits
        changed, removed = self._without_own(listed.changed), self._without_own(listed.removed)
        files = await in_thread(lambda: sort_files(self.root, new, changed, removed, limits))
        if _entries(self._git.index) + len(new) > MAX_FILES:
            raise TooManyFiles(f"the folder holds more than {MAX_FILES:,} files")
        if files.add or files.remove or self._last_tree is None:
            await self._update([path for path in files.add if path not in files.large], files.remove)
            await self._update(list(files.large), (), _LARGE)
            self._last_tree = await self._write_tree()
            self._named = (self._named | {path for path in named if path in files.add}) - set(files.remove)
        self.limits = CopyLimits(limits.room - sum(files.large.values()), files.uncovered)
        if files.remove or (folders.filled and files.add):
            # Empty folders inside new ones are listed separately only now that their siblings are known; those that
            # lost their last file only now that the index does not have it.
            again = parse_listing(await self._list("--directory"))
            folders.empty = (await in_thread(lambda: sort_folders(self.root, self._without_own(again.folders)))).empty
        return Snapshot(self._last_tree, frozenset(folders.empty), files.uncovered, frozenset(folders.nested))

    async def _list_changes(self) -> FileListing:
        listed = parse_listing(await self._list("-m", "-d", "--directory"))
        replaced = await in_thread(lambda: folders_among(self.root, (*listed.changed, *listed.removed)))
        if replaced:
            # While the index has a file of that name, git does not list the folder's contents.
            await self._update((), replaced)
            self._last_tree = None
            listed = parse_listing(await self._list("-m", "-d", "--directory"))
        return listed

    async def _list_ignored(self, max_files: int) -> IgnoredFiles:
        """The ignored files that are not in the index yet."""
        listed = parse_listing(await self._list("-i", "--directory"))
        listed.others, listed.folders = self._without_own(listed.others), self._without_own(listed.folders)
        output = [path for path in listed.folders if may_be_output(path)]
        has_tracked = {path for path in output if await self._has_tracked_files(path)}
        ignored = await in_thread(lambda: sort_ignored(self.root, listed, has_tracked, max_files))
        ignored.files = self._without_own(ignored.files)
        return ignored

    async def _has_tracked_files(self, folder: str) -> bool:
        """Whether the user's own repository has files in a folder. Git's index may be one that cannot be read alone."""
        index = git_folder(self._git.work_tree)[0] / "index"
        git = replace(self._git, index=index)
        try:
            return bool(await git.run("ls-files", "-z", "--", folder, seconds=_USUAL_SECONDS))
        except SnapshotError:
            return True

    async def _list(self, *arguments: str) -> bytes:
        return await self._run("ls-files", "-z", "-t", "-o", "--exclude-standard", *arguments)

    def _without_own(self, paths: Iterable[str]) -> list[str]:
        """Leave out agentcli's settings files and state directory, even if an ignore file includes them."""
        paths = [path for path in paths if not listing.is_own_file(path)]
        out = self._leave_out
        if out is None or not out.is_relative_to(self.root):
            return paths
        name = out.relative_to(self.root).as_posix()
        return [path for path in paths if path != name and not path.startswith(f"{name}/")]

    async def _update(self, add: Sequence[str], remove: Sequence[str], settings: Sequence[str] = ()) -> None:
        if remove:
            await self._run("update-index", "--force-remove", "-z", "--stdin", input=_join_paths(remove))
        if len(add) >= _MANY:
            settings = settings or ("core.bigFileThreshold=1", "pack.compression=1")
        for start in range(0, len(add), _AT_ONCE):
            part = add[start : start + _AT_ONCE]
            await self._run(
                "update-index", "--add", "--remove", "--replace", "-z", "--stdin",
                input=_join_paths(part), settings=settings,
            )  # fmt: skip
        if add:
            await in_thread(lambda: self._note_modes(add))

    def _note_modes(self, paths: Sequence[str]) -> None:
        found = unusual_modes(self.root, paths)
        known = {path: mode for path, mode in self._modes.items() if path not in paths or path in found}
        known |= found
        if known != self._modes and len(known) <= _MAX_MODES:
            self._modes = known
            with contextlib.suppress(OSError, ValueError):
                _write(self.place / "modes.json", json.dumps(known))

    async def _write_tree(self) -> str:
        if not _entries(self._git.index):
            return EMPTY_TREE
        arguments = ["write-tree"]
        if self._prefix:
            arguments.append(f"--prefix={self._prefix}")
        return (await self._run(*arguments)).decode().strip()

    def hold(self, session_id: str, tree: str) -> None:
        """Keep a tree from garbage collection while its session is kept."""
        reference = self.place / "refs" / "snapshots" / session_id / tree
        if tree != EMPTY_TREE and not reference.exists():
            reference.parent.mkdir(parents=True, exist_ok=True)
            _write(reference, f"{tree}\n")

    def close(self) -> None:
        """Leave the index for the next process that uses this folder."""
        with contextlib.suppress(OSError):
            self._git.index.replace(self.place / "index")

    # ---------------------------------------------------------------------------------------------- old content

    async def compare(self, before: str, after: str) -> dict[str, Difference]:
        """The differences between two trees, by path."""
        if before == after:
            return {}
        arguments = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", before, after)
        found = differences(await self._git.run(*arguments, seconds=_USUAL_SECONDS, settings=_NO_TEXT))
        return {path: one for path, one in found.items() if not listing.is_own_file(path)}

    async def patch(self, before: str, after: str, limit: int) -> str:
        # Not `_run`: it uses no index, and may run while a snapshot has locked that.
        output = await self._git.run(
            "diff-tree", "-r", "-p", "-M", "--no-textconv", "--no-ext-diff", "--no-color", "--src-prefix=a/",
            "--dst-prefix=b/", before, after, seconds=_USUAL_SECONDS, cut=limit, settings=_NO_TEXT,
        )  # fmt: skip
        return output.decode("utf-8", "replace")

    async def find_old_name(self, before: str, after: str, path: str) -> str:
        """The name in the tree `before` of a file that is renamed to `path` in the other one; "" if there is none."""
        arguments = ("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", before, after)
        fields = (await self._git.run(*arguments, seconds=_USUAL_SECONDS, settings=_NO_TEXT)).split(b"\0")
        names = {os.fsdecode(new): os.fsdecode(old) for old, new in zip(fields[1::3], fields[2::3], strict=False)}
        return names.get(path, "")

    async def tree_of(self, entries: Mapping[str, TreeEntry]) -> str:
        """A tree that has these paths and nothing else."""
        return await self.with_entries(EMPTY_TREE, entries) if entries else EMPTY_TREE

    async def folders(self, tree: str) -> frozenset[str]:
        """Every folder that contains a file in this tree."""
        output = await self._run("ls-tree", "-r", "-d", "-z", "--name-only", "--full-tree", tree)
        return frozenset(os.fsdecode(name) for name in output.split(b"\0") if name)

    async def holds(self, tree: str) -> bool:
        """Whether the tree still exists; old ones are deleted."""
        if tree == EMPTY_TREE:
            return True
        try:
            await self._run("cat-file", "-e", f"{tree}^{{tree}}")
        except SnapshotError:
            return False
        return True

    async def find_objects(self, names: Sequence[str], kind: str) -> list[str]:
        """The id of each object, named by its id or as `TREE:path`; "" if it does not exist or is no blob or tree, as
        `kind` says. No name has a line break."""
        input = b"".join(os.fsencode(f"{name}\n") for name in names)
        output = await self._run("cat-file", "--batch-check=%(objectname) %(objecttype)", input=input)
        rows = [row.rpartition(b" ") for row in output.splitlines()]
        return [oid.decode() if found == kind.encode() else "" for oid, _blank, found in rows]

    async def check_out(self, tree: str, copy: Path, spared: Sequence[str] = ()) -> None:
        """Make the folder `copy` contain exactly this tree, and what it has in `spared`. Writes only what differs, and
        an index beside the folder."""
        git = replace(self._git, work_tree=copy, folder=copy, index=copy.with_name(f"{copy.name}.index"))
        await git.run("read-tree", "--reset", "-u", tree, seconds=_USUAL_SECONDS)
        patterns = (re.sub(r"([\\*?\[ ])", r"\\\1", path) for path in spared)
        await git.run("clean", "-ffdxq", *(f"--exclude=/{pattern}" for pattern in patterns), seconds=_USUAL_SECONDS)

    async def take_copy(self, copy: Path, seconds: float) -> str:
        """The tree of a folder that `check_out` has made, as it is now. Raises `SnapshotError`."""
        other = Shadow(self._git.program, copy, self.place, str(copy.with_name(f"{copy.name}.index")))
        other._modes = self._modes
        return (await other.take(seconds)).tree

    async def list_unstored(self, tree: str) -> list[str]:
        """Files and folders that exist in the folder now, are ignored by git, and are not in this tree."""
        index = self.place / f"{self._git.index.name}.listed"
        git = replace(self._git, index=index)
        try:
            await git.run("read-tree", f"--prefix={self._prefix}", tree, seconds=_USUAL_SECONDS)
            arguments = ("ls-files", "-z", "-t", "-o", "-i", "--exclude-standard", "--directory")
            listed = parse_listing(await git.run(*arguments, seconds=_USUAL_SECONDS))
        finally:
            await in_thread(lambda: index.unlink(missing_ok=True))
        return self._without_own([*listed.folders, *listed.others])

    async def store(self, content: bytes) -> None:
        """Store content that no snapshot has, so that trees can have it."""
        await self._run("hash-object", "-w", "--stdin", input=content)

    async def content(self, oid: str) -> bytes:
        return (await self._contents([oid]))[0]

    async def _contents(self, oids: Sequence[str]) -> list[bytes]:
        input = "".join(f"{oid}\n" for oid in oids).encode()
        contents = blobs(await self._run("cat-file", "--batch", input=input, cut=1 << 30))
        if len(contents) != len(oids):
            raise SnapshotError("the stored content is incomplete")
        return contents

    async def old_files(self, entries: Mapping[str, TreeEntry]) -> AsyncIterator[list[OldFile]]:
        """Content for each path, in batches that fit into memory."""
        wanted = list(entries.items())
        for begin in range(0, len(wanted), _BLOBS_AT_ONCE):
            part = wanted[begin : begin + _BLOBS_AT_ONCE]
            contents = await self._contents([entry.oid for _path, entry in part])
            # Restored content is already stored: storing it again takes no space.
            again = sum(len(content) for content in contents if len(content) > listing.ALWAYS_COPIED)
            self.limits = CopyLimits(self.limits.room + again, self.limits.refused)
            yield [
                OldFile(path, content, entry.mode == "100755", entry.mode == "120000", self._modes.get(path))
                for (path, entry), content in zip(part, contents, strict=True)
            ]

    async def entries(self, tree: str, paths: Sequence[str]) -> dict[str, TreeEntry]:
        """The entries of these paths in a tree; missing paths are left out."""
        found: dict[str, TreeEntry] = {}
        for start in range(0, len(paths), _MAX_PATHSPECS):
            part = paths[start : start + _MAX_PATHSPECS]
            # Not `_run`, as in `patch`.
            rows = await self._git.run("ls-tree", "-z", "--full-tree", tree, "--", *part, seconds=_USUAL_SECONDS)
            found |= tree_entries(rows)
        return found

    async def with_entries(self, tree: str, entries: Mapping[str, TreeEntry]) -> str:
        """A copy of a tree with these entries; absent ones are removed."""
        index = self.place / f"{self._git.index.name}.amended"
        git = replace(self._git, folder=self._git.work_tree, index=index)
        # Comparisons in the background make trees beside the snapshots, with this one index.
        async with self._amending:
            try:
                await git.run("read-tree", tree, seconds=_USUAL_SECONDS)
                await git.run("update-index", "-z", "--index-info", input=_index_rows(entries), seconds=_USUAL_SECONDS)
                return (await git.run("write-tree", seconds=_USUAL_SECONDS)).decode().strip()
            finally:
                await in_thread(lambda: index.unlink(missing_ok=True))

    async def index_entries(self, content: bytes) -> dict[str, tuple[TreeEntry, ...]]:
        """The entries below the folder in an index file of the user's own repository; several for a conflict."""
        index = self.place / f"{self._git.index.name}.own"
        try:
            await in_thread(lambda: index.write_bytes(content))
            git = replace(self._git, index=index)
            output = await git.run("ls-files", "-s", "-z", seconds=_USUAL_SECONDS) if content else b""
        finally:
            await in_thread(lambda: index.unlink(missing_ok=True))
        found: dict[str, tuple[TreeEntry, ...]] = {}
        for row in output.split(b"\0"):
            about, tab, name = row.partition(b"\t")
            if tab:
                mode, oid, _stage = about.decode().split(" ")
                path = os.fsdecode(name)
                found[path] = (*found.get(path, ()), TreeEntry(mode, oid))
        return found

    async def write_index(self, index: Path, entries: Mapping[str, TreeEntry]) -> None:
        """Change these entries in the index of the user's own repository: the only file of it that is ever written.

        Git writes it with its usual lock, but with the shadow's settings. Raises `SnapshotError`."""
        git = replace(self._git, folder=self._git.work_tree, index=index)
        rows = _index_rows({f"{self._prefix}{path}": entry for path, entry in entries.items()})
        keep = ("core.untrackedCache=keep",)
        await git.run("update-index", "-z", "--index-info", input=rows, seconds=_USUAL_SECONDS, settings=keep)

    async def list_ignored(self, paths: Sequence[str]) -> set[str]:
        """The paths that the current ignore files exclude; all paths if git fails."""
        if not paths:
            return set()
        try:
            # With a leading dot no name is parsed as a pattern.
            input = _join_paths(f"./{path}" for path in paths)
            arguments = ("check-ignore", "-z", "--stdin", "--no-index")
            output = await self._git.run(*arguments, input=input, seconds=_USUAL_SECONDS, fine=(0, 1))
        except SnapshotError:
            return set(paths)
        return {os.fsdecode(name).removeprefix("./") for name in output.split(b"\0") if name}

    async def tidy(self, seconds: float) -> None:
        # References stay separate files, because the times of their folders give the age of a session.
        settings = ("gc.packRefs=false", *_NO_TEXT)
        await self._git.run("gc", "--quiet", "--prune=2.days.ago", seconds=seconds, settings=settings)

    async def _run(
        self, *arguments: str, input: bytes = b"", settings: Sequence[str] = (), cut: int | None = None
    ) -> bytes:
        try:
            return await self._git.run(*arguments, input=input, seconds=_USUAL_SECONDS, settings=settings, cut=cut)
        finally:
            # A killed process leaves its lock; no other process uses this index.
            _unlock(self._git.index)


def _unlock(index: Path) -> None:
    with contextlib.suppress(OSError):
        Path(f"{index}.lock").unlink()


def _entries(index: Path) -> int:
    return int.from_bytes((read_bounded(index, 12, beginning=True) or b"")[8:12], "big")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    temporary.replace(path)


def _join_paths(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _index_rows(entries: Mapping[str, TreeEntry]) -> bytes:
    return b"".join(f"{one.mode} {one.oid}\t".encode() + os.fsencode(path) + b"\0" for path, one in entries.items())
