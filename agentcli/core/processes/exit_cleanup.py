"""Clean-up for every exit, including `os._exit`, which skips the interpreter's own: callbacks, and children to kill.

Callbacks run in reverse order of registration, each at most once, and never raise. Nothing here takes a lock:
`run_exit_cleanup` is also called from signal handlers. Usually the tools stop their processes gracefully (terminate,
wait, kill). Processes are found through their parents and their sessions, so that a child's children are included.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

_callbacks: list[Callable[[], object]] = []


def on_exit(callback: Callable[[], object]) -> Callable[[], None]:
    """Call `callback` when the process ends. Returns a function that removes it."""
    if not _callbacks:
        atexit.unregister(run_exit_cleanup)
        atexit.register(run_exit_cleanup)
    _callbacks.append(callback)

    def forget() -> None:
        with contextlib.suppress(ValueError):
            _callbacks.remove(callback)

    return forget


def run_exit_cleanup() -> None:
    """Run the callbacks. Call it before every `os._exit`, except in forked workers."""
    while _callbacks:
        try:
            callback = _callbacks.pop()
        except IndexError:
            return
        with contextlib.suppress(Exception):
            callback()


def end_process(code: int) -> NoReturn:
    """End the process at once: kill its children, run the callbacks, exit."""

    kill_descendants()
    run_exit_cleanup()
    os._exit(code)


_ROUNDS = 20


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int
    dead: bool
    """A zombie, which still shows its parent."""


def kill_descendants(root: int | None = None) -> None:
    """Kill the descendants of `root`, a child that is itself spared; None: of this process. Never raises.

    Repeats until no process is found: a shell starts its next command when the first is killed.
    """
    sessions: set[int] = set()
    for _round in range(_ROUNDS):
        doomed = _below(os.getpid() if root is None else root, _processes(), sessions)
        for pid in doomed:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not doomed:
            return


def _below(root: int, processes: list[_Process], sessions: set[int]) -> set[int]:
    """The living processes below `root`. Adds to `sessions`, which are remembered after their leaders are gone."""
    # Never our own session: it includes the process that started us.
    spared = {os.getsid(0), 0}
    found: set[int] = set()
    while True:
        more = [
            process
            for process in processes
            if process.pid not in found
            and process.pid != root
            and (process.parent == root or process.parent in found or process.session in sessions)
        ]
        if not more:
            return found - {process.pid for process in processes if process.dead}
        found |= {process.pid for process in more}
        sessions |= {process.session for process in more} - spared


def _processes() -> list[_Process]:
    proc = Path("/proc")
    if (proc / "self" / "stat").exists():
        return [found for entry in proc.iterdir() if entry.name.isdigit() and (found := _from_proc(entry.name))]
    return _from_ps()


def _from_proc(pid: str) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return _Process(int(pid), int(fields[1]), int(fields[3]), fields[0] in "ZX")


def _from_ps() -> list[_Process]:
    from agentcli.core.processes.own_programs import run_program

    with contextlib.suppress(OSError, ValueError):
        listing = run_program(["/bin/ps", "-A", "-o", "pid=,ppid=,sess=,stat="], cwd="/", environ={}, seconds=1)
        rows = [line.split() for line in listing.output.decode(errors="replace").splitlines()]
        # macOS prints sessions as pointers; then only parents are used.
        return [
            _Process(int(row[0]), int(row[1]), int(row[2]) if row[2].isdigit() else 0, row[3].startswith("Z"))
            for row in rows
        ]
    return []
