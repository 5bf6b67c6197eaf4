"""Run git on a shadow repository, so that nothing of the folder's own repository is obeyed, run or changed.

The shadow repository is stored elsewhere and named explicitly, so the folder's `.git` (configuration, hooks, index,
stash, refs) is never opened. The user's environment and configuration are not used either. Only files of the tree
itself have an effect: `.gitignore`, which is obeyed on purpose, and `.gitattributes`, which `info/attributes` of the
shadow overrides, so that bytes are stored unchanged and no filter can be named.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.files.access import read_start
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.core.git.run import GIT_ENVIRON, git_command
from agentcli.core.processes.own_programs import PIPE, end_program, find_program, kill_group, start_program_async
from agentcli.core.text.plaintext import plain_line
from agentcli.workspace.base import SnapshotError, TooManyFiles

OUTPUT_LIMIT = 64 * 1024 * 1024
_CHUNK = 1 << 16
_NO_SPACE = ("Out of diskspace", "No space left on device")
_SETTINGS = (
    "core.bare=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.compression=1",
    "core.fsync=none",
)
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def find_git(search_path: str | None, folders: Sequence[Path]) -> str | None:
    """The git to run: never one inside a working directory, where the agent could have put it."""
    return find_program("git", search_path, folders)


@frozen
class Git:
    program: str
    git_dir: Path
    work_tree: Path
    folder: Path
    """Where git runs: the work tree or a folder in it. Paths in arguments and output are relative to it."""
    index: Path

    async def run(
        self,
        *arguments: str,
        input: bytes = b"",
        seconds: float,
        settings: Sequence[str] = (),
        cut: int | None = None,
        fine: tuple[int, ...] = (0,),
    ) -> bytes:
        """Run git and return its output. Raises `SnapshotError`.

        With `cut`, output beyond that many bytes is dropped; otherwise it is an error. When this returns or raises, the
        process has ended.
        """
        # `check-ignore` refuses the option.
        options = () if arguments[0] == "check-ignore" else ("--literal-pathspecs",)
        try:
            process = await start_program_async(
                git_command(self.program, (*options, *arguments), (*_SETTINGS, *settings)),
                cwd=self.folder,
                environ=self._environ(),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
            )
        except OSError as error:
            raise SnapshotError(f"git did not start: {error.strerror}") from error
        work = start_task(_talk(process, input, cut))
        try:
            async with asyncio.timeout(seconds):
                output, errors = await work
        except TimeoutError as error:
            raise SnapshotError(f"git took longer than {seconds:g} seconds") from error
        finally:
            await cancel_and_wait([work])
            if not work.cancelled():
                work.exception()  # asyncio reports one that nobody has read
            await end_program(process)
        if process.returncode not in fine and (cut is None or len(output) < cut):
            said = errors.decode("utf-8", "replace").strip().splitlines()
            if any(text in line for line in said for text in _NO_SPACE):
                raise SnapshotError("the disk is full")
            raise SnapshotError(f"git {arguments[0]} failed: {said[-1][:300] if said else process.returncode}")
        return output

    def _environ(self) -> dict[str, str]:
        home = str(self.git_dir)
        return {
            **GIT_ENVIRON,
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_DIR": home,
            "GIT_WORK_TREE": str(self.work_tree),
            "GIT_INDEX_FILE": str(self.index),
        }


async def _talk(process: asyncio.subprocess.Process, input: bytes, cut: int | None) -> tuple[bytes, bytes]:
    feeding = start_task(_feed(process, input))
    complaining = start_task(_read(process.stderr, 65_536, process, True))
    try:
        limit = OUTPUT_LIMIT if cut is None else cut
        output = await _read(process.stdout, limit, process, cut is not None)
        errors = await complaining
        await feeding
        await process.wait()
        return output, errors
    finally:
        await cancel_and_wait([feeding, complaining])


async def _feed(process: asyncio.subprocess.Process, input: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(input)
        await process.stdin.drain()
    process.stdin.close()


async def _read(
    stream: asyncio.StreamReader | None, limit: int, process: asyncio.subprocess.Process, may_cut: bool
) -> bytes:
    assert stream is not None
    parts: list[bytes] = []
    size = 0
    while data := await stream.read(_CHUNK):
        size += len(data)
        if size > limit and not may_cut:
            raise TooManyFiles("the folder holds too many files")
        if size - len(data) <= limit:
            parts.append(data)
            if size > limit:
                # What it has written by now is still read: `wait` would not return otherwise.
                kill_group(process.pid)
    return b"".join(parts)[:limit]


_MAX_FILE_SIZE = 1 << 20
_MAX_STEPS = 5
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(r"refs/[^\0\s\\:?*\[~^]{1,500}")


def head_commit(root: Path) -> str | None:
    """The checked-out commit of the repository around this folder; None if there is none or it is unreadable."""
    top = repository_root(root)
    if top is None:
        return None
    folder, shared = git_folder(top)
    places = list(dict.fromkeys((folder, shared)))
    said = _text(folder / "HEAD").strip()
    for _step in range(_MAX_STEPS):
        if _COMMIT.fullmatch(said):
            return said
        name = said.removeprefix("ref:").strip()
        if not said.startswith("ref:") or not _REFERENCE.fullmatch(name) or ".." in name:
            return None
        said = next((text for place in places if (text := _text(place / name).strip())), "")
        said = said or next((text for place in places if (text := _find_packed(place, name))), "")
    return None


def describe_head(folder: Path) -> str:
    """`main at 1a2b3c4d5e`: what git has checked out around this folder; "" outside of repositories. Blocking."""
    top, commit = repository_root(folder), (head_commit(folder) or "")[:10]
    if top is None:
        return ""
    name = _text(git_folder(top)[0] / "HEAD").strip().removeprefix("ref:").strip().removeprefix("refs/heads/")
    branch = "no branch" if _COMMIT.fullmatch(name) else plain_line(name, 100)
    return f"{branch} at {commit}" if commit else f"{branch} without a commit"


def _find_packed(folder: Path, name: str) -> str:
    for line in _text(folder / "packed-refs").splitlines():
        commit, _space, reference = line.partition(" ")
        if reference == name:
            return commit
    return ""


def _text(path: Path) -> str:
    return read_start(path, _MAX_FILE_SIZE)
