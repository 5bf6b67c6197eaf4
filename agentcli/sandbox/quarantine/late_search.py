"""Continue, in a thread, searches for planted repositories that were cut short at the end of a command.

A command can create more folders than can be searched while its result waits. Repositories hidden behind them are found
here. Until then, everything that changed since that command counts as new for later commands.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from agentcli.core.processes.launch import SandboxFinding
from agentcli.sandbox.quarantine.guard import Guard, unread_findings
from agentcli.sandbox.quarantine.inventory import FolderWalk, Inventory, Repository, signature_of, state_of

MOST_FOLDERS = 500_000
MOST_SECONDS = 120.0
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
        deadline = time.monotonic() + MOST_SECONDS

        def may_continue(folders: int) -> bool:
            if folders % _SLICE == 0 and not self._hurry.is_set():
                self._hurry.wait(_PAUSE)
            return not self._stopped and folders < MOST_FOLDERS and time.monotonic() <= deadline

        return FolderWalk(since, may_continue)
