"""The app in a real pseudo-terminal for the benches: what it writes and when, what it costs, and a user who types."""

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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.bench.program import AGENTCLI, Workshop
from tests.bench.tui_markdown import reply as markdown_text
from tests.support.emulator import Emulator, QuickStream
from tests.support.fork_server import ForkedProcess
from tests.support.scripts import Json, event, pause, reply

COLUMNS, ROWS = 120, 40
PATIENCE_SECONDS = 60.0
QUIET_SECONDS = 0.6
"""Without a tick of the processor for so long, a process has done all it does without input."""
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_CONTROLLING = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
MODEL_SHOWN = "medium effort"
"""Behind the model's name in the status line, which is there once the engine is."""


class AppInPty:
    """One thread reads and writes, so that a time is taken right when bytes are there."""

    def __init__(
        self,
        place: Workshop,
        *arguments: str,
        command: Sequence[str] = AGENTCLI,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.terminal, slave = os.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.output = bytearray()
        self._emulator = Emulator(COLUMNS, ROWS)
        self._stream = QuickStream(self._emulator)
        self._came: deque[tuple[int, float]] = deque()
        """What is not on the emulated screen yet: how much output there was, and when."""
        self._emulated = 0
        variables = {**place.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(environ or {})}
        self.process = self._start([*command, *arguments], place.project, variables, slave)
        os.close(slave)
        self._wait_for_exec(_CONTROLLING.encode())
        self.began = time.monotonic()

    def _start(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str], terminal: int
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        arranger = [sys.executable, "-S", "-E", "-c", _CONTROLLING, *command]
        return subprocess.Popen(
            arranger,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environ,
            cwd=folder,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.terminal)

    def _wait_for_exec(self, arranging: bytes) -> None:
        """Until the process is the program that is measured."""
        command_line = Path(f"/proc/{self.process.pid}/cmdline")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and command_line.exists() and arranging in command_line.read_bytes():
            pass

    # ------------------------------------------------------------------------------------------------ the screen

    def press(self, keys: bytes | str) -> float:
        """When it was pressed."""
        at = time.monotonic()
        os.write(self.terminal, keys.encode() if isinstance(keys, str) else keys)
        return at

    def read(self, seconds: float) -> float | None:
        """When something came; None when nothing did."""
        if not select.select([self.terminal], [], [], max(0.0, seconds))[0]:
            return None
        try:
            data = os.read(self.terminal, 1 << 16)
        except OSError as error:
            raise RuntimeError(f"the app ended by itself: {self._last_output()}") from error
        at = time.monotonic()
        self.output += data
        self._came.append((len(self.output), at))
        return at

    def read_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def seen(self, text: str, since: int = 0) -> float:
        """When this text is on the screen, or was written in one piece, at the latest. `since`: where in the output to
        begin; what is on the screen there does not count."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._came and self._came[0][0] <= since:
            self._emulate()
        before = self._count(text) if since else 0
        if not since and (self._count(text) or text.encode() in self.output):
            return time.monotonic()
        while True:
            while self._came:
                start, at = max(since, self._emulated - len(text.encode())), self._emulate()
                if self.output.find(text.encode(), start, self._emulated) >= 0 or self._count(text) > before:
                    return at
            if self.read(deadline - time.monotonic()) is None:
                raise RuntimeError(f"{text!r} was not seen within {PATIENCE_SECONDS:g} s: {self._last_output()}")

    def _emulate(self) -> float:
        """Put the next piece of output on the screen; when it came."""
        end, at = self._came.popleft()
        self._stream.feed(bytes(self.output[self._emulated : end]))
        self._emulated = end
        return at

    def _count(self, text: str) -> int:
        return sum(row.count(text) for row in self._emulator.display)

    def _last_output(self) -> str:
        return bytes(self.output[-700:]).decode(errors="replace")

    def forget_output(self) -> None:
        """Drop what was written so far, unseen: for hours of output that nobody looks for."""
        self.output.clear()
        self._came.clear()
        self._emulated = 0

    # --------------------------------------------------------------------------------------------- what it costs

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS

    @property
    def resident_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def settle(self, quiet: float = QUIET_SECONDS) -> float:
        """Until it has been quiet for a while: everything is imported and shown. The processor time it took."""
        before, quiet_since = -1.0, time.monotonic()
        deadline = quiet_since + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self.read_for(0.05)
            if (now := self.cpu_seconds) - before > _TICK_SECONDS * 1.5:
                before, quiet_since = now, time.monotonic()
            elif time.monotonic() - quiet_since > quiet:
                return self.cpu_seconds
        raise RuntimeError(f"it was not quiet within {PATIENCE_SECONDS:g} s: {self._last_output()}")

    def ready(self) -> float:
        """Until the engine is there and everything is warm. The processor time that took."""
        self.seen(MODEL_SHOWN)
        return self.settle()

    def send(self, prompt: str) -> float:
        """Type it, wait for it, press Enter; when Enter was pressed."""
        since = len(self.output)
        self.press(prompt)
        self.seen(prompt, since)
        return self.press("\r")

    def type_keys(self, first: str, text: str, gap: Callable[[], float]) -> list[float]:
        """Type `first`, which is nowhere else on the screen, and behind it one key after the other, `gap()` seconds
        apart. The seconds until the box was painted with each of them."""
        text = text.replace(" ", "-")  # a space at the end of a row cannot be seen
        self.press(first)
        self.seen(first, len(self.output))
        latencies: list[float] = []
        for count in range(1, len(text) + 1):
            since = len(self.output)
            pressed = self.press(text[count - 1])
            latencies.append(self.seen(first + text[:count], since) - pressed)
            self.read_for(pressed + gap() - time.monotonic())
        return latencies


def paced_reply(text: str, seconds: float, size: int = 24) -> Json:
    """One answer in deltas of `size` characters, so many seconds apart."""
    steps: list[Json] = [
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    ]
    for start in range(0, len(text), size):
        delta = {"type": "text_delta", "text": text[start : start + size]}
        steps += [pause(seconds), event({"type": "content_block_delta", "index": 0, "delta": delta})]
    return reply(*steps, event({"type": "content_block_stop", "index": 0}))


def markdown(size: int, end: str) -> str:
    """Whole parts of an answer, some prose, and the words at its end on a row of their own."""
    text = markdown_text(size)
    parts = text[: text.rfind("\n## ") + 1]
    prose = "and so on, " * ((size - len(parts)) // 11)
    return f"{parts}{prose}\n\n{end}\n"
