"""Find the call that broke something: binary search over the snapshots of a session, with a command as the judge.

The command runs in copies of the folders. In a Linux sandbox it sees them in place of the real ones, so that absolute
paths, editable installs and environments work; elsewhere it runs in the copy's own folder. Folders that git ignores and
that are not in the snapshots (`.venv`, `node_modules`) are shown read-only. Nothing of the project is written.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.files.access import real_path
from agentcli.core.files.rebuildable import CACHES, OUTPUT
from agentcli.core.frozen import frozen
from agentcli.core.processes.launch import Launcher
from agentcli.history.states import States
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.session_folder import SessionFolder
from agentcli.tools.base import ToolContext
from agentcli.tools.shell.output import CollectedOutput
from agentcli.tools.shell.running_command import ShellCommand
from agentcli.workspace.folders import SnapshotFolders

SKIPPED = 125
"""Exit code with which a command says that a state cannot be judged, as for `git bisect run`."""
_STOP_SECONDS = 0.5
_LAST_LINES = 10
_SHOWN_CACHES = frozenset({"node_modules"})

Verdict = Literal["good", "bad", "skipped"]


class Search:
    """Which state to run next. State 0 comes first, to see whether the command works at all."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.verdicts: dict[int, Verdict] = {}
        self._low = 0
        """The highest state known to be good."""
        self._high = last + 1
        """The lowest state known to be bad; beyond the last one if none is."""

    @property
    def found(self) -> tuple[int, int] | None:
        """The last good and the first bad state, as far as they are known; None if no good or no bad one is."""
        is_complete = self.verdicts.get(0) == "good" and self._high <= self.last
        return (self._low, self._high) if is_complete else None

    @property
    def max_left(self) -> int:
        """Maximum number of further runs, unless states are skipped."""
        return 0 if self.next() is None else (0 not in self.verdicts) + (self._high - self._low - 1).bit_length()

    def next(self) -> int | None:
        if self.verdicts.get(0) != "good":
            return None if 0 in self.verdicts else 0
        open_ = [state for state in range(self._low + 1, self._high) if state not in self.verdicts]
        return min(open_, key=lambda state: abs(2 * state - self._low - self._high), default=None)

    def note(self, state: int, verdict: Verdict) -> None:
        self.verdicts[state] = verdict
        if verdict == "good":
            self._low = max(self._low, state)
        elif verdict == "bad":
            self._high = min(self._high, state)


@frozen
class Run:
    """One run of the command."""

    state: int
    verdict: Verdict
    exit_code: int
    seconds: float
    timed_out: bool
    last_lines: tuple[str, ...]
    """The end of its output. Untrusted."""


@frozen(kw_only=True)
class Copies:
    """Copies of the folders of a session. `context` is that of the agent's commands, with its sandbox."""

    states: States
    folders: SnapshotFolders
    context: ToolContext
    cwd: Path
    shown: tuple[Path, ...] = ()
    """Paths that are not in the snapshots, and are shown as they are."""
    outputs: tuple[Path, ...] = ()
    """Build output in the folders, as the project has it: kept from run to run, so that builds are incremental."""
    outer: dict[Path, Path] = field(default_factory=dict)
    """The copy of each folder that is not inside another one."""

    @property
    def in_place(self) -> bool:
        """Whether commands see the copies in place of the folders."""
        return isinstance(self.context.launcher, BubblewrapLauncher)

    def copy_of(self, path: Path) -> Path:
        root = next(root for root in self.outer if path.is_relative_to(root))
        return self.outer[root] / path.relative_to(root)

    async def run(self, state: int, command: str, seconds: float, signal: AbortSignal) -> Run:
        """Run the command in a state. Raises `Aborted`, `SnapshotError` and OSError."""
        await self.check_out(state)
        launcher = await in_thread(self.launcher)
        context = replace(self.context, cwd=self.cwd if self.in_place else self.copy_of(self.cwd), launcher=launcher)
        if not self.in_place:
            context = replace(context, environ={**context.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        output = CollectedOutput(None, "")
        try:
            running = await ShellCommand.start(command, context, output)
            started = time.monotonic()
            try:
                is_over = await signal.run(running.wait(seconds))
                ended = time.monotonic()
                if not is_over:
                    await running.stop(_STOP_SECONDS)
            finally:
                await running.aclose()
        finally:
            if launcher is not self.context.launcher:
                await in_thread(launcher.close)
        code = running.code
        verdict: Verdict = "bad" if not is_over or code not in (0, SKIPPED) else "good" if code == 0 else "skipped"
        lines = tuple(line for line in output.text().splitlines() if line.strip())[-_LAST_LINES:]
        return Run(state, verdict, code, ended - started, not is_over, lines)

    async def check_out(self, state: int) -> None:
        trees = self.states.trees(state)
        before = self.states.changes[max(0, state - 1)].record.before if self.states.changes else {}
        for root in sorted(map(Path, trees)):  # outer ones first
            place = self.copy_of(root)
            inner = [other.relative_to(root).as_posix() for other in map(Path, trees) if root in other.parents]
            outputs = [path.relative_to(root).as_posix() for path in self.outputs if path.is_relative_to(root)]
            await in_thread(partial(place.mkdir, parents=True, exist_ok=True))
            shadow = await self.folders.shadow(root)
            await shadow.check_out(trees[str(root)], place, (*inner, *outputs))
            snapshot = before.get(str(root))
            for name in sorted(snapshot.empty) if snapshot is not None else ():
                with contextlib.suppress(OSError):
                    await in_thread(partial(_make_folder, place, name))
        await in_thread(partial(_make_folder, self.copy_of(self.cwd), "."))

    def _is_free(self, path: Path) -> bool:
        """Whether something can be shown at a path: the state has nothing there, and no link leads elsewhere."""
        place = self.copy_of(path)
        return not os.path.lexists(place) and real_path(place.parent) == str(place.parent)

    def launcher(self) -> Launcher:
        """The launcher of commands in the copies as they are now. Blocking. Raises OSError."""
        shown = [path for path in self.shown if self._is_free(path)]
        for path in () if self.in_place else shown:
            link = self.copy_of(path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
        return self.context.launcher.for_copies(self.outer, shown)


def _make_folder(root: Path, name: str) -> None:
    folder = Path(os.path.normpath(root / name))
    # A link in the tree must not lead elsewhere.
    if real_path(folder) == str(folder):
        folder.mkdir(parents=True, exist_ok=True)


async def prepare_copies(
    states: States, folders: SnapshotFolders, context: ToolContext, cwd: Path, private: SessionFolder
) -> Copies:
    """Raises `SnapshotError` and OSError."""
    roots = sorted(Path(root) for root in states.first)
    outer = [root for root in roots if not any(other in root.parents for other in roots)]
    last = states.trees(len(states.changes))
    shown: list[Path] = []
    outputs: list[Path] = []
    for root in roots:
        if not await in_thread(root.is_dir):
            continue
        for name in await (await folders.shadow(root)).list_unstored(last[str(root)]):
            path = root / name
            if path.name in OUTPUT:
                outputs.append(path)
            elif path.name not in CACHES - _SHOWN_CACHES:
                shown.append(path)
        if isinstance(context.launcher, BubblewrapLauncher) and await in_thread(os.path.lexists, root / ".git"):
            # Elsewhere nothing would keep a command from writing to it.
            shown.append(root / ".git")
    where = private.path / "copies"
    return Copies(
        states=states,
        folders=folders,
        context=context,
        cwd=cwd if any(cwd.is_relative_to(root) for root in outer) else outer[0],
        shown=tuple(shown),
        outputs=tuple(outputs),
        outer={root: where / str(number) for number, root in enumerate(outer)},
    )


async def find_missing(states: States, folders: SnapshotFolders) -> set[tuple[str, str]]:
    """The trees, with their folders, that were deleted from the store."""
    missing: set[tuple[str, str]] = set()
    by_root: dict[str, list[str]] = {}
    for root, tree in states.list_trees():
        by_root.setdefault(root, []).append(tree)
    for root, trees in by_root.items():
        found = await (await folders.shadow(Path(root))).find_objects(trees, "tree")
        missing |= {(root, tree) for tree, oid in zip(trees, found, strict=True) if not oid}
    return missing
