"""Real processes and what they cost: wall time, processor time, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.fork_server import ForkedProcess

REPOSITORY = Path(__file__).parents[2]
AGENTCLI = (sys.executable, "-m", "agentcli")
LEAST_CLIENT = (sys.executable, str(Path(__file__).with_name("least_client.py")))
PROBE_SECONDS = 0.005


@dataclass(frozen=True)
class Ran:
    began: float
    ended: float
    cpu_seconds: float
    memory: tuple[tuple[float, int], ...] = ()
    """Resident kilobytes over time; only when asked for, and only where there is /proc."""
    peak_kilobytes: int = 0
    output: str = ""

    @property
    def wall_ms(self) -> float:
        return (self.ended - self.began) * 1000

    @property
    def cpu_ms(self) -> float:
        return self.cpu_seconds * 1000


class Workshop:
    """A home and a project of their own for the processes that are measured."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.environ = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "sk-bench",
            "AGENTCLI_SESSION_TITLES": "off",
        }

    def talk_to(self, url: str) -> None:
        self.environ["ANTHROPIC_BASE_URL"] = url

    def run(self, command: Sequence[str], *, watch_memory: bool = False) -> Ran:
        """Run a command to its end. Raises `RuntimeError` when it fails: its time would mean nothing."""
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
            began = time.monotonic()
            process = self._start(command, output.fileno(), errors.fileno())
            with _watched(process.pid, watch_memory) as memory:
                code, cpu_seconds = self._wait(process)
                ended = time.monotonic()
            if code != 0:
                errors.seek(0)
                raise RuntimeError(f"{' '.join(command)} failed: {errors.read().decode(errors='replace')}")
            output.seek(0)
            text = output.read().decode(errors="replace")
        return Ran(began, ended, cpu_seconds, tuple(memory.samples), memory.peak, text)

    def _start(self, command: Sequence[str], output: int, errors: int) -> subprocess.Popen[bytes] | ForkedProcess:
        return subprocess.Popen(
            command, cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )

    def _wait(self, process: subprocess.Popen[bytes] | ForkedProcess) -> tuple[int, float]:
        """Exit code and seconds of processor time."""
        if isinstance(process, ForkedProcess):
            return process.wait(), 0.0
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime


@contextmanager
def workshop(parent: str | None = None) -> Iterator[Workshop]:
    """`parent`: where to make it, by default in the system's temp folder."""
    with tempfile.TemporaryDirectory(prefix="agentcli-bench-", dir=parent) as folder:
        yield Workshop(Path(folder).resolve())


class _Memory:
    """`ru_maxrss` would do for the peak, but a child inherits it from whoever started it."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.samples: list[tuple[float, int]] = []
        self.peak = 0

    def look(self) -> None:
        try:
            text = self._status.read_text()
        except OSError:
            return
        values = {name: rest for name, _colon, rest in (line.partition(":") for line in text.splitlines())}
        if "VmRSS" in values:
            self.samples.append((time.monotonic(), int(values["VmRSS"].split()[0])))
            self.peak = max(self.peak, int(values["VmHWM"].split()[0]))


@contextmanager
def _watched(pid: int, wanted: bool) -> Iterator[_Memory]:
    memory = _Memory(pid)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(PROBE_SECONDS):
            memory.look()

    thread = threading.Thread(target=watch)
    if wanted:
        thread.start()
    try:
        yield memory
    finally:
        ended.set()
        if wanted:
            thread.join()
