"""The terminal: its capabilities, its mode, and signals."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agentcli.core.processes.exit_cleanup import end_process

SHUTDOWN_SECONDS = 1.5
"""Seconds from SIGTERM or SIGHUP to the end of the process, whatever a child process does."""


def wants_colours(environ: Mapping[str, str]) -> bool:
    return not environ.get("NO_COLOR")


def wants_vi(environ: Mapping[str, str]) -> bool:
    """Whether the user edits lines as in vi, as configured for readline."""
    path = environ.get("INPUTRC") or f"{environ.get('HOME', '')}/.inputrc"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 -- nothing else here needs pathlib
            found = re.findall(r"^\s*set\s+editing-mode\s+(\w+)", file.read(100_000), re.MULTILINE)
    except (OSError, ValueError):
        return False
    return bool(found) and found[-1].lower() == "vi"


def columns(descriptor: int = 1) -> int:
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80


def find_encoding() -> str:
    """The terminal's encoding as Python derives it from the locale, where C means UTF-8 as well."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


class Keyboard:
    """Reads keys one by one and without echo; Ctrl+C and Ctrl+Z still send signals. The mode stays between prompts:
    what is typed there must not appear in the middle of an answer."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._before: list[int | list[bytes | int]] | None = None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        try:
            self._before = termios.tcgetattr(self._descriptor)
        except termios.error:
            yield
            return
        self.again()
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        if self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)

    def again(self) -> None:
        """Set the mode again: after a stop another program may have changed it."""
        if self._before is None:
            return
        changed = [list(part) if isinstance(part, list) else part for part in self._before]
        input_modes, local_modes, characters = changed[0], changed[3], changed[6]
        assert isinstance(input_modes, int)
        assert isinstance(local_modes, int)
        assert isinstance(characters, list)
        changed[0] = input_modes & ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
        changed[3] = local_modes & ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        characters[termios.VQUIT] = os.fpathconf(self._descriptor, "PC_VDISABLE").to_bytes(1, "little")
        characters[termios.VMIN] = 1
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSANOW, changed)


class Signals:
    """Signal handlers: SIGINT acts like a key; SIGTERM and SIGHUP end the program within a deadline."""

    def __init__(
        self,
        interrupt: Callable[[], None],
        end: Callable[[], object],
        again: Callable[[], None],
        restore: Callable[[], None],
    ) -> None:
        """`restore` puts the terminal back; it is the only clean-up when the deadline has passed."""
        self._restore = restore
        self._interrupt = interrupt
        self._end = end
        self._again = again
        self._installed: list[signal.Signals] = []
        self._deadline: asyncio.TimerHandle | None = None
        self.exit_code: int | None = None
        """128 + the number of the signal that ended the program."""

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._interrupt,
            signal.SIGCONT: self._again,
            signal.SIGTERM: lambda: self._stop(signal.SIGTERM),
            signal.SIGHUP: lambda: self._stop(signal.SIGHUP),
        }
        for number, handler in handlers.items():
            if number is signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, handler)
                self._installed.append(number)

    def remove(self) -> None:
        loop = asyncio.get_running_loop()
        while self._installed:
            loop.remove_signal_handler(self._installed.pop())
        if self._deadline is not None:
            self._deadline.cancel()

    def _stop(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            self.exit_code = 128 + number
            self._deadline = asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, self._time_is_up)
            self._end()

    def _time_is_up(self) -> None:
        self._restore()
        end_process(self.exit_code or 1)
