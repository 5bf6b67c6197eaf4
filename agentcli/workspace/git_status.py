"""A short summary of a repository's state: branch, distance from upstream, changed files, last commits.

Git takes no lock, runs no program of the repository, fetches nothing and does not enter submodules. Both git
commands run in parallel, up to a deadline; their output is limited, cut and cleaned, because file names and commit
subjects are untrusted. Blocking.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Sequence
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.git.run import GIT_ENVIRON, git_command, git_settings
from agentcli.core.processes.exit_cleanup import on_exit
from agentcli.core.processes.own_programs import PIPE, StartedProgram, StillRunning, kill_group, start_program
from agentcli.core.text.plaintext import plain_line

MOST_FILES = 20
MOST_COMMITS = 5
_LONGEST_NAME = 160
_LONGEST_SUBJECT = 100
_MOST_OUTPUT = 256 * 1024
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--no-renames"),
    *("--ignore-submodules=all", "--untracked-files=normal"),
)
# `rev-list`, not `log`: it obeys no setting that would check signatures or change the format.
_COMMITS = ("rev-list", f"--max-count={MOST_COMMITS}", "--format=%h %s", "HEAD", "--")


@frozen
class GitStatus:
    branch: str = ""
    """Name of the branch; empty if none is checked out."""
    upstream: str = ""
    ahead: int | None = None
    """Commits missing upstream; None without a known upstream."""
    behind: int | None = None
    changed: tuple[str, ...] = ()
    """Changed files as in `git status --short`, at most `MOST_FILES`."""
    changed_count: int = 0
    incomplete: bool = False
    """Whether there are more changed files than were counted."""
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
            more = "more than " if self.incomplete else ""
            made += [f"Changed files ({more}{self.changed_count:,}):", *self.changed]
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
    started: list[StartedProgram] = []

    def kill() -> None:
        for process in started:
            if process.poll() is None:
                kill_group(process.pid)

    forget = on_exit(kill)
    try:
        settings = git_settings(program, folder)
        started.append(_start(program, _STATUS, folder, settings))
        started.append(_start(program, _COMMITS, folder, settings))
        outputs = _read(started, deadline)
        codes = [process.wait(max(0.01, deadline - time.monotonic())) for process in started]
    except (OSError, StillRunning):
        return None
    finally:
        for process in started:
            _end(process)
        forget()
    if outputs is None:
        return None
    status, commits = outputs
    cut = len(status) >= _MOST_OUTPUT
    if codes[0] != 0 and not cut:
        return None
    # A repository without commits has no HEAD to list from.
    return _parsed(status, commits if codes[1] == 0 else b"", cut)


def _start(program: str, arguments: Sequence[str], folder: Path, settings: Sequence[str]) -> StartedProgram:
    return start_program(git_command(program, arguments, settings), cwd=folder, environ=GIT_ENVIRON, stdout=PIPE)


def _read(processes: Sequence[StartedProgram], deadline: float) -> list[bytes] | None:
    """The output of each process, at most `_MOST_OUTPUT` bytes; None after the deadline."""
    found: list[bytearray] = [bytearray() for _process in processes]
    with selectors.DefaultSelector() as selector:
        for place, process in enumerate(processes):
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, place)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                return None
            for key, _events in ready:
                data = os.read(key.fd, 1 << 16)
                output = found[key.data]
                output += data
                if not data or len(output) >= _MOST_OUTPUT:
                    selector.unregister(key.fileobj)
                    if data:
                        kill_group(processes[key.data].pid)
    return [bytes(output) for output in found]


def _end(process: StartedProgram) -> None:
    if process.poll() is None:
        kill_group(process.pid)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _parsed(status: bytes, commits: bytes, cut: bool) -> GitStatus:
    entries = status.decode("utf-8", "replace").split("\0")[:-1]
    headers = dict(entry[2:].split(" ", 1) for entry in entries if entry.startswith("# branch.") and " " in entry[2:])
    changed = [line for entry in entries if (line := _changed(entry))]
    ahead, behind = _distance(headers.get("branch.ab", ""))
    branch = plain_line(headers.get("branch.head", ""), 200)
    subjects = [line for line in commits.decode("utf-8", "replace").splitlines() if not line.startswith("commit ")]
    return GitStatus(
        branch="" if branch == "(detached)" else branch,
        upstream=plain_line(headers.get("branch.upstream", ""), 200),
        ahead=ahead,
        behind=behind,
        changed=tuple(changed[:MOST_FILES]),
        changed_count=len(changed),
        incomplete=cut,
        commits=tuple(plain_line(line, _LONGEST_SUBJECT) for line in subjects[:MOST_COMMITS]),
    )


def _changed(entry: str) -> str:
    """Format a file entry as `M  src/a.py`; empty for any other entry."""
    kind, _blank, rest = entry.partition(" ")
    if kind == "?":
        return f"?? {plain_line(rest, _LONGEST_NAME)}"
    fields = {"1": 7, "u": 9}.get(kind)
    if fields is None:
        return ""
    parts = rest.split(" ", fields)
    if len(parts) <= fields:
        return ""
    return f"{parts[0].replace('.', ' ')} {plain_line(parts[fields], _LONGEST_NAME)}"


def _distance(text: str) -> tuple[int | None, int | None]:
    """Parse `+2 -1` into ahead and behind."""
    numbers = text.replace("+", "").replace("-", "").split()
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None, None
    return int(numbers[0]), int(numbers[1])
