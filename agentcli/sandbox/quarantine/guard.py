"""Detect files that a command must not leave behind, during and after its run, and quarantine them.

A missing name cannot be mounted over without creating it, and a file that git replaces cannot be mounted at all. Both
are checked afterwards instead: a planted name is moved to quarantine, a changed file is restored.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentcli.core.files.file_notices import FileNotices, NoticePool
from agentcli.core.frozen import frozen
from agentcli.core.git.settings import first_dangerous, list_settings
from agentcli.core.processes.launch import SandboxFinding
from agentcli.core.text.patterns import lazy_bytes_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.sandbox.quarantine.inventory import (
    CONTROLS,
    FolderWalk,
    Inventory,
    Repository,
    RepositoryState,
    active_hooks,
    change_time,
    signature_of,
    state_of,
)
from agentcli.sandbox.quarantine.protected import REBASE_TODO
from agentcli.sandbox.quarantine.store import Quarantine, QuarantinedItem, TooLarge, folder_of, replace_file
from agentcli.shell.git_config import CONTROL_NAMES, completes_repository, points_back, read_regular, resolve_dot_git

MAX_FINDINGS = 20
"""Number of findings after which the command is stopped."""
_MAX_ATTEMPTS = 3
"""How often a repository that keeps changing is judged. After that it stays unknown until the command that changes it
ends."""
_TOO_LARGE = (
    "The working directories are too large to search for planted repositories after each command. The "
    "search continues in the background."
)
_FLOODED = (
    "The command made or changed at least {count:,} folders, which can hide a planted repository. Do not run git in "
    "them until the search has ended."
)
_CONFIGURATION = ("config", "config.worktree")
_TODO = REBASE_TODO.rpartition("/")[2]
_EXEC = lazy_bytes_pattern(rb"(?m)^[ \t]*(?:exec|x)[ \t]+(.*\S)")


@frozen(kw_only=True)
class Watched:
    """Paths to check for one command, absolute and without links."""

    missing: tuple[Path, ...]
    """Protected names that do not exist."""
    contents: dict[Path, bytes]
    """Protected files that the command may replace, with their contents."""
    own: tuple[Path, ...]
    """Git folders that the command may write, protected by the mounts and `contents`."""
    read_only: tuple[Path, ...]
    """Paths that the command cannot change."""
    makes_repository: bool
    inside: tuple[Path, ...]
    """The folders that a repository may point into."""
    program: str | None
    """Path of the git program that reads configuration."""
    began: int
    """Time just before the command started, by the clock of change times, in ns."""
    settings_approved: bool = False
    """Whether the user approved a change of git's settings."""
    steps_approved: bool = False
    """Whether the user or a rule approved the command, which may name programs for a rebase to run."""
    inner: frozenset[Path] = frozenset()
    """Existing git folders of submodules and worktrees inside `own`."""


class Guard:
    """Checks for one command. `look` and `finish` may be called from different threads."""

    def __init__(
        self, watched: Watched, quarantine: Quarantine, inventory: Inventory, pool: NoticePool, command: str
    ) -> None:
        self._watched = watched
        self._missing = set(watched.missing)
        self._quarantine = quarantine
        self._inventory = inventory
        self._program = watched.program
        self._command = command
        self.began = watched.began
        self._findings: list[SandboxFinding] = []
        self._lock = threading.Lock()
        self._quick = False
        self._was_complete = False
        self.ended = 0
        """Time when `finish` was called, by the clock of change times, in ns."""
        self._covered = frozenset((*watched.own, *watched.read_only))
        self.is_cut = self.is_flooded = False
        """After `finish`: whether the search was cut short, and whether because of folders that the command made or
        changed."""
        # As text: `Path.parent` of all of them takes longer than watching the few folders.
        folders = {str(path).rpartition("/")[0] or "/" for path in (*watched.missing, *watched.contents)}
        self._pool = pool
        self._notices: FileNotices | None = pool.take(sorted(folders))

    @property
    def descriptor(self) -> int:
        return -1 if self._notices is None else self._notices.descriptor

    def look(self) -> int:
        """Handle reported changes within a few milliseconds and leave slower work to `finish`. Returns the number of
        findings so far."""
        changed = set() if self._notices is None else self._notices.read()
        with self._lock:
            self._quick = True
            for path in changed:
                if path in self._missing:
                    self._take_planted(path)
                elif path in self._watched.contents:
                    self._take_changed(path, self._watched.contents[path])
            return len(self._findings)

    def permit(self, path: Path) -> None:
        """Accept this path, which a tool creates with the user's approval while the command runs."""
        self._missing -= {name for name in self._missing if path.is_relative_to(name)}

    def close(self) -> None:
        """Stop watching the folders."""
        if self._notices is not None:
            self._pool.give_back(self._notices)
        self._notices = None

    def widen(self, began: int) -> None:
        """Check everything since `began`: a parallel command may have planted it."""
        self.began = min(self.began, began)

    def finish(self) -> tuple[SandboxFinding, ...]:
        """Check the working directories after the command has ended. Blocking."""
        self.close()
        self.ended = change_time()
        with self._lock:
            self._quick = False
            for path in sorted(self._missing, key=str):
                self._take_planted(path)
            for path, content in self._watched.contents.items():
                self._take_changed(path, content)
            for folder in self._watched.own:
                self._check_inside(folder)
            self._was_complete = self._inventory.complete
            walk = FolderWalk(self.began)
            for repository in list(self._inventory.follow(walk)):
                self._check(repository)
            self._findings += unread_findings(self._inventory, walk, self.began)
            self.is_cut, self.is_flooded = not walk.complete, walk.is_flooded
            if self.is_flooded:
                self._findings.append(SandboxFinding(_FLOODED.format(count=walk.changed)))
            elif self.is_cut and self._inventory.is_first_cut():
                self._findings.append(SandboxFinding(_TOO_LARGE))
            return tuple(self._findings)

    def check_late(self, repository: Repository) -> Sequence[SandboxFinding]:
        """Handle a repository that was found after `finish`. Returns the findings about it."""
        with self._lock:
            before = len(self._findings)
            self._check(repository)
            return self._findings[before:]

    # ----------------------------------------------------------------------------------------------- single names

    def _take_planted(self, path: Path) -> None:
        if signature_of(path) is None:
            return
        if any(path.is_relative_to(folder) for folder in self._watched.own):
            if path.name == "hooks" and not active_hooks(path):
                return
            if path.name in _CONFIGURATION and self._harmless(path):
                return
            if path.name == _TODO and not self._runs_more(read_regular(path), b""):
                return
        self._take(path, "other programs run or obey it")

    def _take_changed(self, path: Path, old: bytes) -> None:
        found = signature_of(path)
        if found is None:
            # Removed with its folder, or a pointer or script without effective content.
            if path.name in (*CONTROLS,) and path.parent.is_dir():
                self._put_back(path, old)
            return
        new = read_regular(path) if stat.S_ISREG(found[1]) else None
        if new == old:
            return
        if new is None:
            self._take(path, "it replaced a protected file")
            self._put_back(path, old)
        elif path.name == _TODO:
            if self._runs_more(new, old):
                self._take(path, "git would run programs that it names")
        elif path.name in _CONFIGURATION and self._watched.settings_approved:
            return
        elif path.name in _CONFIGURATION:
            before = list_settings(old, self._program) or ()
            if (key := first_dangerous(new, self._program, before)) is not None:
                self._keep(path, new, old, f"it sets {key}")
        else:
            self._keep(path, new, old, "its content decides what other programs run")

    def _runs_more(self, new: bytes | None, old: bytes) -> bool:
        """Whether the steps of a rebase run a program that they did not run before and that no approved command
        names."""
        known, approved = set(_EXEC.findall(old)), self._command.encode() if self._watched.steps_approved else b""
        return new is None or any(step not in known and step not in approved for step in _EXEC.findall(new))

    def _harmless(self, path: Path) -> bool:
        data = read_regular(path)
        return data is not None and not path.is_symlink() and first_dangerous(data, self._program) is None

    # ----------------------------------------------------------------------------------------------- repositories

    def _check_inside(self, git_dir: Path) -> None:
        """Check new git folders of submodules and worktrees in a repository that the command could write."""
        inner = list(_inner_folders(git_dir))
        for folder in inner:
            if folder in self._watched.inner:
                continue
            if _is_worktree(folder, (git_dir, *inner)):
                reason = _worktree_objection(folder, self._watched.inside)
            else:
                reason = self._objection_in(folder)
            if reason is not None:
                self._take(folder, reason)

    def _check(self, repository: Repository) -> None:
        if repository.path in self._covered:
            return
        for _attempt in range(_MAX_ATTEMPTS):
            state, known = state_of(repository), self._inventory.known(repository.path)
            if known == state:
                return
            self._judge(repository, known, state)
            if signature_of(repository.path) is None:
                self._inventory.forget(repository.path)
                return
            # A parallel command may have changed it since it was judged: only remember the state that was judged.
            if state_of(repository) == state:
                self._inventory.remember(repository.path, state)
                return

    def _judge(self, repository: Repository, known: RepositoryState | None, state: RepositoryState) -> None:
        own, since = signature_of(repository.path), self._inventory.unseen_since(self.began)
        if known is not None:
            if state.newest >= since:
                self._restore(repository, known, state)
        elif own is not None and max(state.newest, own[3] if self._was_complete else 0) >= since:
            self._check_new(repository)

    def _check_new(self, repository: Repository) -> None:
        reason = self._objection(repository)
        if reason is None and (self._watched.makes_repository or repository.kind == "folder"):
            if not self._watched.makes_repository:
                where = plain_line(str(repository.path), 300)
                self._note(SandboxFinding(f"The command created the repository {where}. It is harmless and was kept."))
            return
        reason = reason or "it makes the folder a repository"
        if repository.kind != "bare":
            self._take(repository.path, reason)
            return
        for name in sorted(CONTROL_NAMES):
            found = signature_of(repository.path / name)
            # The user's files beside it are kept.
            if found is not None and found[3] >= self._inventory.unseen_since(self.began):
                self._take(repository.path / name, reason)

    def _objection(self, repository: Repository) -> str | None:
        """Reason why a repository is not harmless; None if it is."""
        path = repository.path
        if repository.kind == "link":
            return "it is a link"
        if repository.kind == "file":
            target = resolve_dot_git(path)
            real = None if target is None else Path(os.path.realpath(target))
            if real is None or not any(real.is_relative_to(folder) for folder in self._watched.inside):
                return "it points to a repository elsewhere"
            for own in self._watched.own:
                if real.is_relative_to(own):
                    # In a git folder that commands write, only these parts were checked.
                    known = real == own or real in inner_folders((own,))
                    return None if known else "it points to a folder that is not a worktree or submodule"
            return self._objection_in(real)
        return self._objection_in(path)

    def _objection_in(self, git_dir: Path) -> str | None:
        if active_hooks(git_dir / "hooks"):
            return "it has hooks"
        if os.path.lexists(git_dir / "commondir"):
            return "it includes configuration from elsewhere"
        for name in _CONFIGURATION:
            if not os.path.lexists(git_dir / name):
                continue
            data = None if (git_dir / name).is_symlink() else read_regular(git_dir / name)
            if data is None:
                return f"its {name} cannot be read"
            settings = list_settings(data, self._program) or ()
            own = [each for each in settings if each[0] == "core.worktree" and points_back(git_dir, each[1])]
            if (key := first_dangerous(data, self._program, own)) is not None:
                return f"it sets {key}"
        inner = list(_inner_folders(git_dir))
        for folder in inner:
            if not _is_worktree(folder, (git_dir, *inner)) and (reason := self._objection_in(folder)) is not None:
                return reason
        return None

    def _restore(self, repository: Repository, known: RepositoryState, state: RepositoryState) -> None:
        path = repository.path
        for name in ("",) if repository.kind in ("file", "link") else CONTROLS:
            file, old = (path / name if name else path), known.content(name)
            if old is not None:
                self._take_changed(file, old)
                continue
            is_new = name in dict(state.signatures) and name not in dict(known.signatures)
            if is_new and (name not in _CONFIGURATION or not self._harmless(file)):
                self._take(file, "it changes what the repository obeys")
        hooks = dict(known.hooks)
        for name, found in state.hooks:
            if hooks.get(name) != found and found[3] >= self._inventory.unseen_since(self.began):
                self._take(path / "hooks" / name if name else path / "hooks", "git would run it")

    # -------------------------------------------------------------------------------------------------- quarantine

    def _take(self, path: Path, reason: str) -> None:
        def move() -> QuarantinedItem:
            return self._quarantine.take(path, self._command, reason, quick=self._quick)

        self._report(path, "moved to quarantine", reason, move)

    def _keep(self, path: Path, new: bytes, old: bytes, reason: str) -> None:
        def exchange() -> QuarantinedItem:
            item = self._quarantine.keep(path, new, self._command, reason)
            with folder_of(path) as parent:
                replace_file(parent, path.name, old)
            return item

        self._report(path, "restored, and the new content is in quarantine", reason, exchange)

    def _put_back(self, path: Path, old: bytes) -> None:
        with contextlib.suppress(OSError), folder_of(path) as parent:
            replace_file(parent, path.name, old)

    def _report(self, path: Path, outcome: str, reason: str, work: Callable[[], QuarantinedItem]) -> None:
        shown = plain_line(str(path), 300)
        try:
            item = work()
        except FileNotFoundError:
            return
        except OSError as error:
            if self._quick and isinstance(error, TooLarge):
                return
            why = error.strerror or type(error).__name__
            text = f"{shown} could not be moved to quarantine ({why}). Remove it: {plain_line(reason, 200)}."
            self._note(SandboxFinding(text, str(path)))
            return
        text = f"{shown} was {outcome}: {plain_line(reason, 200)}. To restore it: agentcli quarantine restore {item.id}"
        self._note(SandboxFinding(text, str(path)))

    def _note(self, finding: SandboxFinding) -> None:
        if finding not in self._findings:  # a repository may be judged more than once
            self._findings.append(finding)


def unread_findings(inventory: Inventory, walk: FolderWalk, began: int) -> list[SandboxFinding]:
    shown = (plain_line(path, 300) for path in inventory.note_unread(walk, began))
    return [SandboxFinding(f"{path} cannot be listed. Check it for planted repositories.") for path in shown]


def _inner_folders(git_dir: Path, depth: int = 0) -> Iterable[Path]:
    """Git folders of submodules and worktrees inside a git folder."""
    for group in ("worktrees", "modules"):
        yield from _below(git_dir / group, depth)


def _below(folder: Path, depth: int) -> Iterable[Path]:
    if depth > 8:
        return
    try:
        with os.scandir(folder) as entries:
            inner = [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in inner:
        try:
            names = os.listdir(path)  # noqa: PTH208
        except OSError:
            # Git cannot read it either; once it can, it counts as new.
            continue
        if completes_repository(names):
            yield path
            yield from _inner_folders(path, depth + 1)
        elif folder.name != "worktrees":
            yield from _below(path, depth + 1)


def inner_folders(git_dirs: Iterable[Path]) -> frozenset[Path]:
    return frozenset(folder for git_dir in git_dirs for folder in _inner_folders(git_dir))


def _is_worktree(folder: Path, git_dirs: Sequence[Path]) -> bool:
    """Whether a git folder is a worktree's, by its location, because a submodule may also be called `worktrees`."""
    return folder.parent.name == "worktrees" and folder.parent.parent in git_dirs


def _worktree_objection(folder: Path, inside: Iterable[Path]) -> str | None:
    pointer, back = read_regular(folder / "commondir"), read_regular(folder / "gitdir")
    if pointer is None or Path(os.path.realpath(folder / os.fsdecode(pointer.rstrip(b"\r\n")))) != folder.parent.parent:
        return "it includes configuration from elsewhere"
    if back is None or os.path.lexists(folder / "config.worktree"):
        return "it has its own configuration"
    target = os.path.realpath(os.fsdecode(back.rstrip(b"\r\n")))
    if not any(Path(target).is_relative_to(root) for root in inside):
        return "it points elsewhere"
    return None


MAX_FOLDERS = 500_000
MAX_SECONDS = 120.0
_SLICE = 100
"""Folders between two pauses; takes a millisecond or two."""
_PAUSE = 0.005
_UNFINISHED = (
    "The search for planted repositories did not finish. Check the working directories for unknown folders "
    "before you run git in them."
)


class LateSearch:
    """One per launcher; runs one search at a time. Safe to use from several threads."""

    def __init__(self, inventory: Inventory, running: Sequence[Guard]) -> None:
        """`running`: the guards of the running commands, kept up to date by the launcher."""
        self._inventory = inventory
        self._running = running
        self._lock = threading.Lock()
        self._before: int | None = None
        self._waiting: list[Guard] = []
        self._findings: deque[SandboxFinding] = deque()
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()
        self._stopped = False
        self._was_reported = False

    def begin(self, before: int) -> None:
        """Complete the first walk, which remembers repositories unchanged since `before`, in ns."""
        with self._lock:
            self._before = before
            self._start()

    def add(self, guard: Guard) -> None:
        """Search again, completely, for repositories that this guard's command planted."""
        with self._lock:
            self._waiting.append(guard)
            self._inventory.cut_since = self._inventory.unseen_since(guard.began)
            self._start()

    def take_finding(self) -> SandboxFinding | None:
        return self._findings.popleft() if self._findings else None

    def wait(self, seconds: float) -> None:
        """Search without pauses for at most `seconds`."""
        thread = self._thread
        if thread is not None:
            self._hurry.set()
            thread.join(seconds)
            self._hurry.clear()

    def close(self, seconds: float) -> None:
        """Stop the search after at most `seconds`."""
        self.wait(seconds)
        self._stopped = True

    def _start(self) -> None:
        if self._thread is None:
            self._stopped = False
            self._thread = threading.Thread(target=self._run, name="sandbox search", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        complete = False
        while True:
            with self._lock:
                before, self._before = self._before, None
                guards, self._waiting = self._waiting, []
                if self._stopped or (before is None and not guards):
                    if complete:
                        self._inventory.cut_since = None
                    self._thread = None
                    return
            if before is not None:
                self._inventory.begin(before, self._walk(before))
            if guards:
                complete = self._search(guards)

    def _search(self, guards: list[Guard]) -> bool:
        since = min(self._inventory.unseen_since(guard.began) for guard in guards)
        walk = self._walk(since)
        for repository in self._inventory.follow(walk):
            for guard in guards:
                if not self._is_of_a_later_command(repository, guard):
                    self._findings.extend(guard.check_late(repository))
        self._findings.extend(unread_findings(self._inventory, walk, since))
        if walk.complete and any(guard.is_flooded for guard in guards):
            self._findings.append(SandboxFinding("The search for planted repositories has finished."))
        if not walk.complete and not self._was_reported and not self._stopped:
            self._was_reported = True
            self._findings.append(SandboxFinding(_UNFINISHED))
        return walk.complete

    def _is_of_a_later_command(self, repository: Repository, guard: Guard) -> bool:
        """Whether a later command that still runs made or changed a repository: it is checked when that one ends."""
        own = signature_of(repository.path)
        newest = max(state_of(repository).newest, 0 if own is None else own[3])
        return any(guard.ended <= later.began <= newest for later in tuple(self._running))

    def _walk(self, since: int) -> FolderWalk:
        deadline = time.monotonic() + MAX_SECONDS

        def may_continue(folders: int) -> bool:
            if folders % _SLICE == 0 and not self._hurry.is_set():
                self._hurry.wait(_PAUSE)
            return not self._stopped and folders < MAX_FOLDERS and time.monotonic() <= deadline

        return FolderWalk(since, may_continue)
