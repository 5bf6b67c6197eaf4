"""How soon the user can type: from the start of the process to the echo of a key and to the whole app, in a pty."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import Measure, Report
from tests.bench.program import AGENTCLI, workshop
from tests.support.emulator import Emulator, QuickStream

COLUMNS, ROWS = 100, 30
KEY_SECONDS = 0.015
"""Between two keys, from the first bytes on: a fast typist who does not wait for anything."""
AFTERWARDS_SECONDS = 0.3
PATIENCE_SECONDS = 30.0
TYPED = "thequickbrownfoxjumpsoverthelazydog" * 4
_KITTY = b"\x1b[>25u"
"""Written by both apps when they take the terminal; the first frame after it is the app's."""
_FRAME = b"\x1b[1;1H"
_CONTROLLING = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
BARE_APP = """
from textual.app import App
from textual.widgets import Static, TextArea
class Bare(App):
    CSS = "TextArea { height: 3; border: none; }"
    def compose(self):
        yield Static("transcript")
        yield TextArea()
    def on_mount(self):
        self.query_one(TextArea).focus()
Bare().run()
"""


@dataclass(frozen=True)
class Started:
    first_bytes: float
    echoed: float
    """When the first key was on the screen."""
    complete: float
    """When the app's own first frame was."""
    latencies: tuple[float, ...]
    """Of every key, from when it was pressed to when it was on the screen."""
    lost: int
    cpu: float


def tui_start(runs: int) -> Report:
    commands: dict[str, Sequence[str]] = {
        "bare Textual app": (sys.executable, "-c", BARE_APP),
        "agentcli": AGENTCLI,
    }
    results: dict[str, list[Started]] = {name: [] for name in commands}
    with workshop() as place:
        environ = {**place.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
        # The first time around compiles what it imports, and keeps the look for the next.
        for turn in range(runs + 1):
            for name, command in commands.items():
                started = start_app(command, environ, str(place.project))
                if turn:
                    results[name].append(started)
    bare = results["bare Textual app"]
    ours = results["agentcli"]
    measures = (
        _measure("bare Textual app: start to echo of a key", [run.echoed for run in bare]),
        _measure("bare Textual app: start to its first frame", [run.complete for run in bare]),
        _measure("agentcli: start to first bytes", [run.first_bytes for run in ours]),
        _measure(
            "agentcli: start to echo of a key",
            [run.echoed for run in ours],
            120,
            "bare Textual app: start to echo of a key",
        ),
        _measure(
            "agentcli: start to the app's first frame",
            [run.complete for run in ours],
            baseline="bare Textual app: start to its first frame",
        ),
        Measure(
            "agentcli: key to echo while it starts",
            tuple(latency * 1000 for run in ours for latency in run.latencies),
        ),
        Measure("agentcli: keys lost", tuple(float(run.lost) for run in ours), unit="keys", budget=0),
        Measure("agentcli: processor time", tuple(run.cpu * 1000 for run in ours)),
    )
    return Report("tui-start: from the start of the process to a prompt that echoes", measures)


def _measure(name: str, seconds: list[float], budget: float | None = None, baseline: str | None = None) -> Measure:
    return Measure(name, tuple(value * 1000 for value in seconds), budget=budget, baseline=baseline)


def start_app(command: Sequence[str], environ: Mapping[str, str], folder: str) -> Started:
    main_end, terminal_end = os.openpty()
    fcntl.ioctl(main_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    # In a session of its own, as a shell would start it, but without paying for the interpreter that arranges that.
    arranger = [sys.executable, "-S", "-E", "-c", _CONTROLLING, *command]
    process = subprocess.Popen(
        arranger,
        stdin=terminal_end,
        stdout=terminal_end,
        stderr=terminal_end,
        env=environ,
        cwd=folder,
        start_new_session=True,
    )
    os.close(terminal_end)
    try:
        _wait_for_exec(process.pid, arranger)
        typist = _Typist(main_end, time.monotonic())
        typist.type_until_complete()
        return typist.result(_cpu_seconds(process.pid))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(main_end)


class _Typist:
    """Types one key after the other from the first bytes on, and notes when each prefix of it is on the screen."""

    def __init__(self, terminal: int, began: float) -> None:
        self._terminal = terminal
        self._began = began
        self._output = bytearray()
        self._emulator = Emulator(COLUMNS, ROWS)
        self._stream = QuickStream(self._emulator)
        self._pressed: list[float] = []
        self._seen: list[float] = []
        self._first_bytes: float | None = None
        self._complete: float | None = None

    def type_until_complete(self) -> None:
        deadline = self._began + PATIENCE_SECONDS
        next_key = self._began
        while time.monotonic() < deadline:
            now = time.monotonic()
            if self._complete is not None and now > self._complete + AFTERWARDS_SECONDS:
                if len(self._seen) == len(self._pressed) or now > self._complete + 2:
                    return
            elif self._may_type() and now >= next_key and len(self._pressed) < len(TYPED):
                self._pressed.append(now)
                os.write(self._terminal, TYPED[len(self._pressed) - 1].encode())
                next_key = now + KEY_SECONDS
            self._read()
        raise RuntimeError(f"the app was not there within {PATIENCE_SECONDS:g} s: {bytes(self._output[-500:])!r}")

    def _may_type(self) -> bool:
        # Written once the terminal is in raw mode; before that the terminal itself would echo.
        return b"\x1b[?2004h" in self._output

    def _read(self) -> None:
        if not select.select([self._terminal], [], [], 0.002)[0]:
            return
        try:
            data = os.read(self._terminal, 65536)
        except OSError as error:
            raise RuntimeError(f"it ended by itself: {bytes(self._output[-500:])!r}") from error
        now = time.monotonic()
        self._first_bytes = self._first_bytes or now
        self._output += data
        self._stream.feed(data)
        screen = "".join(row.strip() for row in self._emulator.display)
        while len(self._seen) < len(self._pressed) and TYPED[: len(self._seen) + 1] in screen:
            self._seen.append(now)
        if self._complete is None:
            taken = self._output.find(_KITTY)
            if taken >= 0 and self._output.find(_FRAME, taken) >= 0:
                self._complete = now

    def result(self, cpu: float) -> Started:
        assert self._first_bytes is not None
        assert self._complete is not None
        pairs = zip(self._pressed, self._seen, strict=False)
        return Started(
            first_bytes=self._first_bytes - self._began,
            echoed=(self._seen[0] if self._seen else self._began + PATIENCE_SECONDS) - self._began,
            complete=self._complete - self._began,
            latencies=tuple(seen - pressed for pressed, seen in pairs),
            lost=len(self._pressed) - len(self._seen),
            cpu=cpu,
        )


def _wait_for_exec(pid: int, arranger: Sequence[str]) -> None:
    """Until the process is the program that is measured. Where there is no /proc, its arranger is measured too."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if arranger[4].encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
                return
        except OSError:
            return


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
