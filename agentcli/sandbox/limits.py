"""Resource limits of a sandboxed command: memory, processes, processor time.

The kernel's own limits do not fit: address space limits (RLIMIT_AS, RLIMIT_DATA) stop node, Java and sanitizers, which
reserve terabytes that they never use; RLIMIT_NPROC counts per user and does not apply to root; a cgroup needs a
delegated tree, which few machines have. So a thread checks the processes listed in the sandbox's own /proc, and kills
the whole sandbox if it exceeds a limit. Processor time is left to RLIMIT_CPU, which is precise. For users other than
root RLIMIT_NPROC is a second, wider limit on processes.

The thread runs only while commands run and uses at most 2 % of a processor; commands that end at once have none
(`Launch.watch_limits`). A command can exceed its limit for some tenths of a second before it is stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agentcli.core.frozen import frozen

_INTERVAL = 0.05
_SHARE = 50
"""Minimum ratio of sleep time to the processor time of a check."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ACCOUNTED = 0.75
_MIN_TASKS = 8_192
CPU_SIGNAL = signal.SIGXCPU if hasattr(signal, "SIGXCPU") else signal.SIGTERM


@frozen
class ResourceLimits:
    """Limits of one command; None: no limit."""

    memory: int | None = None
    """Bytes, for all processes of a command together."""
    processes: int | None = None
    cpu_seconds: int | None = None
    """Processor seconds, for each process."""

    @property
    def watched(self) -> bool:
        return self.memory is not None or self.processes is not None


def default_memory() -> int | None:
    """Three quarters of the memory of this machine or container; None if unknown."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * _PAGE
    except (ValueError, OSError):
        return None
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text()))
    return int(total * _ACCOUNTED)


def with_kernel_limits(arguments: tuple[str, ...], limits: ResourceLimits) -> tuple[str, ...]:
    """Prefix a shell's `-c` arguments with the limits, on the same line so that line numbers do not change.

    The soft limit on processor time is below the hard one: SIGXCPU reveals the reason before the hard limit kills.
    """
    if len(arguments) < 3 or arguments[1] != "-c":
        return arguments
    shell, option, script, *rest = arguments
    prefix = ""
    if (seconds := limits.cpu_seconds) is not None:
        prefix = f"ulimit -St {seconds}; ulimit -Ht {seconds + 5}; "
    if limits.processes is not None and os.geteuid() != 0 and shell.endswith("/bash"):
        # Also counts threads, and before Linux 5.14 all of the user's processes: only a fallback for fast growth.
        prefix += f"ulimit -u {max(_MIN_TASKS, 4 * limits.processes)} 2>/dev/null; "
    return (shell, option, f"{prefix}{script}", *rest)


class LimitWatch:
    """Watches the running sandboxes of a session. Safe to use from several threads."""

    def __init__(self, limits: ResourceLimits) -> None:
        self._limits = limits
        self._guard = threading.Condition()
        self._watched: dict[object, Callable[[], int | None]] = {}
        self._struck: dict[object, str] = {}
        self._thread: threading.Thread | None = None

    def add(self, key: object, first_process: Callable[[], int | None]) -> None:
        """Start watching. `first_process`: returns the pid of the sandbox's first process, None before it starts."""
        if not self._limits.watched:
            return
        with self._guard:
            self._watched[key] = first_process
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sandbox limits", daemon=True)
                self._thread.start()

    def remove(self, key: object) -> str:
        """Stop watching. Returns a message about the exceeded limit, empty if none was."""
        with self._guard:
            self._watched.pop(key, None)
            if not self._watched:
                self._guard.notify()
            return self._struck.pop(key, "")

    def _run(self) -> None:
        while True:
            with self._guard:
                watched = list(self._watched.items())
            # Processor time, not wall time: a check delayed by a busy machine would postpone the next one by seconds.
            began = time.thread_time()
            for key, first_process in watched:
                self._look(key, first_process)
            pause = max(_INTERVAL, _SHARE * (time.thread_time() - began))
            with self._guard:
                if self._watched:
                    self._guard.wait(pause)
                if not self._watched:
                    # The thread ends when idle, because most sessions rarely run commands.
                    self._thread = None
                    return

    def _look(self, key: object, first_process: Callable[[], int | None]) -> None:
        first = first_process()
        if first is None:
            return
        reason = _excess(first, self._limits)
        if not reason:
            return
        with self._guard:
            if key not in self._watched:
                return
            self._struck.setdefault(key, reason)
            # Killing the first process of a pid namespace kills all others. Under the lock: as long as
            # the launch has not ended, its pid cannot be reused.
            with contextlib.suppress(OSError):
                os.kill(first, signal.SIGKILL)


def _excess(first: int, limits: ResourceLimits) -> str:
    """Message about the limit that a sandbox exceeds; empty if none."""
    root = f"/proc/{first}/root/proc"
    try:
        processes = [name for name in os.listdir(root) if name.isdigit()]  # noqa: PTH208 - ten times a second
    except OSError:
        return ""
    if limits.processes is not None and len(processes) > limits.processes:
        return (
            f"The command had {len(processes):,} processes, more than the sandbox's limit of {limits.processes:,}, and "
            "was stopped. The setting sandbox.maxProcesses raises the limit."
        )
    if limits.memory is None:
        return ""
    used = sum(_anonymous(root, name) for name in processes)
    if used > limits.memory:
        # Shared pages of forked processes were counted several times. The exact number takes milliseconds, so only
        # here.
        used = sum(_proportional(root, name) for name in processes)
    if used <= limits.memory:
        return ""
    return (
        f"The command used {used // 2**20:,} MiB of memory, more than the sandbox's limit of "
        f"{limits.memory // 2**20:,} MiB, and was stopped. The setting sandbox.maxMemoryMb raises the limit."
    )


def _anonymous(root: str, process: str) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"{root}/{process}/statm", "rb") as file:  # noqa: PTH123
        fields = file.read().split()
        return (int(fields[1]) - int(fields[2])) * _PAGE
    return 0


def _proportional(root: str, process: str) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"{root}/{process}/smaps_rollup", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"Pss_Anon:"):
                return int(line.split()[1]) * 1024
    return _anonymous(root, process)
