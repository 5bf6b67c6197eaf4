"""A Python program in a real pseudo-terminal, seen through a terminal emulator."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.emulator import Emulator, QuickStream
from tests.support.fork_server import forked

REPOSITORY = Path(__file__).parents[3]
PATIENCE_SECONDS = 15.0
"""Only ever waited for when a test fails."""

_UNKNOWN_TO_THE_EMULATOR = re.compile(rb"\x1b\[[<>=?][0-9;]*u|\x1b\[\?[0-9]+\$p|\x1b\[[0-9;]*t|\x1b\[0 q")


class PtyProgram:
    def __init__(
        self,
        source: str,
        *,
        columns: int = 80,
        rows: int = 24,
        environ: Mapping[str, str] | None = None,
        answer: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`answer`: what the terminal replies to a piece of output."""
        self.screen = Emulator(columns, rows)
        self._stream = QuickStream(self.screen)
        self._answer = answer
        self.raw = bytearray()
        self.fd, slave = os.openpty()
        self.slave = slave
        self.resize(columns, rows)
        self.attributes_before = termios.tcgetattr(slave)
        variables = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **(environ or {}),
        }
        self.process = forked(["-c", source], REPOSITORY, variables, slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for descriptor in (self.fd, self.slave):
            if descriptor >= 0:
                os.close(descriptor)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def send(self, data: bytes | str) -> None:
        data = data.encode() if isinstance(data, str) else data
        while data:
            data = data[os.write(self.fd, data[:2048]) :]
            self.read(0)

    def read(self, seconds: float) -> bool:
        """Whether something came."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data
        self._stream.feed(_UNKNOWN_TO_THE_EMULATOR.sub(b"", data))
        if self._answer is not None and (reply := self._answer(data)):
            os.write(self.fd, reply)
        return True

    def until(self, condition: Callable[[], bool] | str) -> None:
        """Until the text is on the screen, or the condition holds."""
        holds = (lambda: condition in self.text) if isinstance(condition, str) else condition
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not seen: {condition!r}\n{self.text}\n{bytes(self.raw)[-2000:]!r}"
            self.read(0.02)

    def end(self) -> int:
        """The exit code, once the program has ended."""
        self.until(lambda: self.process.poll() is not None)
        while self.read(0.02):
            pass
        return self.process.wait()

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)
