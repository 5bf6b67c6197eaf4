"""Compare work trees with git's HEAD, untracked files included, without obeying anything of the repository.

Git runs with a separate repository folder that borrows the objects: it has the commit, a copy of the index (so that
unchanged files are not read) and the exclude patterns, but no configuration, hooks, filters, drivers or refs of the
repository. Nothing is written into the repository or the work tree.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.files.bounded_read import read_bounded, read_start
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.workspace.base import FolderDiff, SnapshotError, WorkspaceDiff
from agentcli.workspace.diff.agent_diff import DIFF_LIMIT
from agentcli.workspace.git import EMPTY_TREE, Git, find_git
from agentcli.workspace.head_commit import head_commit

_SECONDS = 60.0
_LARGEST_INDEX = 512 * 1024 * 1024
_MOST_PATTERNS = 100_000
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
    exclude = "\n".join(read_start(path, _MOST_PATTERNS) for path in ignore_files)
    for place, text in (
        ("HEAD", f"{commit}\n" if commit else "ref: refs/heads/none\n"),
        ("config", config),
        ("objects/info/alternates", f"{os.fsdecode(os.path.realpath(shared / 'objects'))}\n"),
        ("info/attributes", _ATTRIBUTES),
        ("info/exclude", exclude),
    ):
        (borrowed / place).write_bytes(os.fsencode(text) if place.endswith("alternates") else text.encode())
    for source in (own / "index", *own.glob("sharedindex.*")):
        data = read_bounded(source, _LARGEST_INDEX)
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
