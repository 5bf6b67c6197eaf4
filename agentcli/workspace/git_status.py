"""A short summary of a repository's state: branch, distance from upstream, changed files, last commits.

Git takes no lock, runs no program of the repository, fetches nothing and does not enter submodules. Both git
commands run in parallel, up to a deadline; their output is limited, cut and cleaned, because file names and commit
subjects are untrusted. Blocking.
"""

from __future__ import annotations

import time
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.git.run import git_settings, run_git
from agentcli.core.text.plaintext import plain_line

MAX_FILES = 20
MAX_COMMITS = 5
_MAX_NAME_LENGTH = 160
_MAX_SUBJECT_LENGTH = 100
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--no-renames"),
    *("--ignore-submodules=all", "--untracked-files=normal"),
)
# `rev-list`, not `log`: it obeys no setting that would check signatures or change the format.
_COMMITS = ("rev-list", f"--max-count={MAX_COMMITS}", "--format=%h %s", "HEAD", "--")


@frozen
class GitStatus:
    branch: str = ""
    """Name of the branch; empty if none is checked out."""
    upstream: str = ""
    ahead: int | None = None
    """Commits missing upstream; None without a known upstream."""
    behind: int | None = None
    changed: tuple[str, ...] = ()
    """Changed files as in `git status --short`, at most `MAX_FILES`."""
    changed_count: int = 0
    commits: tuple[str, ...] = ()
    """Short hash and subject of each, newest first."""

    def lines(self) -> list[str]:
        """The summary for the model, as lines."""
        made = []
        if self.upstream:
            made.append(f"Upstream: {self.upstream}{self._distance()}")
        if not self.changed_count:
            made.append("No changed files.")
        else:
            made += [f"Changed files ({self.changed_count:,}):", *self.changed]
            left_out = self.changed_count - len(self.changed)
            made += [f"and {left_out:,} more"] if left_out else []
        return [*made, "Last commits:", *self.commits] if self.commits else made

    def _distance(self) -> str:
        if self.ahead is None or self.behind is None:
            return " (not fetched)"
        return f" ({self.ahead:,} ahead, {self.behind:,} behind)" if self.ahead or self.behind else " (up to date)"


def read_git_status(program: str, folder: Path, seconds: float) -> GitStatus | None:
    """Read the status; None if git fails or takes longer. Leaves no process running."""
    deadline = time.monotonic() + seconds
    try:
        settings = git_settings(program, folder)
        status = run_git(program, _STATUS, folder, deadline - time.monotonic(), settings=settings)
        commits = run_git(program, _COMMITS, folder, deadline - time.monotonic(), settings=settings)
    except OSError:
        return None
    if status.code != 0:
        return None
    # A repository without commits has no HEAD to list from.
    return _parse(status.output, commits.output if commits.code == 0 else b"")


def _parse(status: bytes, commits: bytes) -> GitStatus:
    entries = status.decode("utf-8", "replace").split("\0")[:-1]
    headers = dict(entry[2:].split(" ", 1) for entry in entries if entry.startswith("# branch.") and " " in entry[2:])
    changed = [line for entry in entries if (line := _format_entry(entry))]
    ahead, behind = _distance(headers.get("branch.ab", ""))
    branch = plain_line(headers.get("branch.head", ""), 200)
    subjects = [line for line in commits.decode("utf-8", "replace").splitlines() if not line.startswith("commit ")]
    return GitStatus(
        branch="" if branch == "(detached)" else branch,
        upstream=plain_line(headers.get("branch.upstream", ""), 200),
        ahead=ahead,
        behind=behind,
        changed=tuple(changed[:MAX_FILES]),
        changed_count=len(changed),
        commits=tuple(plain_line(line, _MAX_SUBJECT_LENGTH) for line in subjects[:MAX_COMMITS]),
    )


def _format_entry(entry: str) -> str:
    """Format a file entry as `M  src/a.py`; empty for any other entry."""
    kind, _blank, rest = entry.partition(" ")
    if kind == "?":
        return f"?? {plain_line(rest, _MAX_NAME_LENGTH)}"
    fields = {"1": 7, "u": 9}.get(kind)
    if fields is None:
        return ""
    parts = rest.split(" ", fields)
    if len(parts) <= fields:
        return ""
    return f"{parts[0].replace('.', ' ')} {plain_line(parts[fields], _MAX_NAME_LENGTH)}"


def _distance(text: str) -> tuple[int | None, int | None]:
    """Parse `+2 -1` into ahead and behind."""
    numbers = text.replace("+", "").replace("-", "").split()
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None, None
    return int(numbers[0]), int(numbers[1])
