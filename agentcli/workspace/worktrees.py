"""Git worktrees for work beside the user's own: created from HEAD under the state folder, removed when unchanged.

    <state>/worktrees/<project key>/<name>         the folder, on the branch `agentcli/<name>`
    <state>/worktrees/<project key>/<name>.lock    locked while a process works there
    <state>/worktrees/<project key>/<name>.json    the repository and the commit that it started from

Git runs no program of the repository or the user: files that a filter would change, such as those of git LFS, are
as they were committed. Blocking.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentcli.core.errors import AgentError, UsageError
from agentcli.core.files.access import parse_json, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import git_folder
from agentcli.core.git.run import git_settings, run_git
from agentcli.core.processes.own_programs import FinishedProgram, find_program
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line

BRANCHES = "agentcli/"
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SECONDS = 120.0


@frozen
class Worktree:
    name: str
    path: Path
    """Root of the worktree."""
    repository: Path
    """Root of the user's own work tree."""
    start: str
    """The commit that it was created from."""

    @property
    def branch(self) -> str:
        return f"{BRANCHES}{self.name}"

    def inside(self, folder: Path) -> Path:
        """The folder in the worktree that corresponds to `folder` in the repository; the root if there is none."""
        if folder.is_relative_to(self.repository):
            there = self.path / folder.relative_to(self.repository)
            return there if there.is_dir() else self.path
        return self.path


class Worktrees:
    """The worktrees of one repository. Methods raise `AgentError`."""

    def __init__(self, folder: Path, repository: Path, environ: Mapping[str, str]) -> None:
        """`folder`: contains the worktrees, private to this repository."""
        self._folder = Path(os.path.realpath(folder))
        self._repository = repository
        program = find_program("git", environ.get("PATH"), (repository, self._folder))
        if program is None:
            raise AgentError("Worktrees need git, which is not installed.")
        self._program = program
        self._locks: dict[str, int] = {}

    def open(self, name: str) -> Worktree:
        """Open the worktree of this name, or create one from HEAD. It is locked until `close`."""
        if not _NAME.fullmatch(name) or name.endswith((".lock", ".json")) or ".." in name:
            raise UsageError(
                f"{plain_line(name, 80)!r} is not a name for a worktree: letters, digits, `.`, `_` and `-`, "
                "at most 64. Without a name agentcli picks one."
            )
        self._lock(name)
        try:
            found = self._find_existing(name)
            return found if found is not None else self._make(name)
        except BaseException:
            self._unlock(name)
            raise

    def close(self, worktree: Worktree) -> bool:
        """Remove a worktree if nothing in it has changed; return whether it was kept."""
        try:
            kept = not self._is_unchanged(worktree)
            if not kept:
                self._remove(worktree)
        finally:
            self._unlock(worktree.name)
        return kept

    def sweep(self) -> None:
        """Remove unchanged worktrees that a killed process left behind. Ignores failures."""
        for record in sorted(self._folder.glob("*.json")):
            name = record.stem
            with suppress(AgentError, OSError):
                self._lock(name)
                found = self._find_existing(name)
                if found is None:
                    self._unlock(name)
                    record.unlink(missing_ok=True)
                else:
                    self.close(found)

    # ------------------------------------------------------------------------------------------------------ internals

    def _make(self, name: str) -> Worktree:
        head = self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head.code != 0:
            raise AgentError("A worktree starts from the last commit, and this repository has none. Commit first.")
        start = head.output.decode().strip()
        worktree = Worktree(name, self._folder / name, self._repository, start)
        exists = self._run("show-ref", "--verify", "--quiet", f"refs/heads/{worktree.branch}").code == 0
        # An earlier folder that was deleted without git is still registered.
        self._run("worktree", "prune")
        new_branch = () if exists else ("-b", worktree.branch)
        # Includes in the repository's configuration may depend on the branch and on the folder, so files are written by
        # a git that was started there.
        place = ("--no-checkout", str(worktree.path), worktree.branch if exists else start)
        self._run_checked("worktree", "add", "--quiet", *new_branch, *place)
        try:
            self._run_checked("reset", "--hard", "--quiet", folder=worktree.path)
        except AgentError:
            self._remove(worktree)
            raise
        record = {"repository": str(self._repository), "start": start}
        self._record(name).write_text(json.dumps(record), encoding="utf-8")
        return worktree

    def _find_existing(self, name: str) -> Worktree | None:
        found = find_recorded_worktree(self._folder / name)
        return found if found is not None and found.repository == self._repository else None

    def _is_unchanged(self, worktree: Worktree) -> bool:
        if (git_folder(worktree.path)[0] / "modules").exists():
            # Git would have to run in the submodules, each of which has settings of its own.
            return False
        head = self._run("rev-parse", "HEAD", folder=worktree.path)
        status = self._run("status", "--porcelain", "--untracked-files=normal", folder=worktree.path)
        if head.code != 0 or status.code != 0:
            return False
        return head.output.decode().strip() == worktree.start and not status.output.strip()

    def _remove(self, worktree: Worktree) -> None:
        # Forced: ignored files, such as caches, would prevent the removal.
        self._run_checked("worktree", "remove", "--force", str(worktree.path))
        tip = self._run("rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}")
        if tip.output.decode().strip() == worktree.start:
            self._run_checked("branch", "--quiet", "-D", worktree.branch)
        self._record(worktree.name).unlink(missing_ok=True)

    def _record(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _lock(self, name: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise AgentError(f"The worktree {name} is in use by another agentcli. Choose another name.") from None
        self._locks[name] = lock

    def _unlock(self, name: str) -> None:
        lock = self._locks.pop(name, None)
        if lock is not None:
            if self._find_existing(name) is None:
                (self._folder / f"{name}.lock").unlink(missing_ok=True)
            os.close(lock)

    def _run_checked(self, *arguments: str, folder: Path | None = None) -> FinishedProgram:
        done = self._run(*arguments, folder=folder)
        if done.code != 0:
            said = done.errors.decode("utf-8", "replace").strip().splitlines()
            why = plain_line(said[-1], 300) if said else f"exit code {done.code}"
            raise AgentError(f"git {arguments[0]} {arguments[1]} failed: {why}")
        return done

    def _run(self, *arguments: str, folder: Path | None = None) -> FinishedProgram:
        place = folder or self._repository
        try:
            return run_git(self._program, arguments, place, _SECONDS, settings=git_settings(self._program, place))
        except OSError as error:
            raise AgentError(f"git failed: {error.strerror or error}.") from error


def find_recorded_worktree(path: Path) -> Worktree | None:
    """The worktree in a folder, from the record beside it; None if there is none."""
    try:
        record = parse_json(read_bounded(path.parent / f"{path.name}.json", 10_000) or b"{}")
        start, repository = record["start"], record["repository"]
    except (ValueError, KeyError, TypeError):
        return None
    is_there = (path / ".git").is_file() and isinstance(start, str) and isinstance(repository, str)
    return Worktree(path.name, path, Path(repository), start) if is_there else None
