"""The app in a real pseudo-terminal, as a user has it: keys in, a screen out, with its own home and project folder.

    async with app_with(tmp_path, reply("hi")) as (app, server):
        await app.ready()
        await app.submit("hello")
        await app.wait_for("hi")
        assert await app.leave() == 0

Nothing here sleeps for a fixed time: `wait_for` looks whenever something was painted, and now and then at what does not
paint (files, requests), until its deadline, which only a failing test reaches.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from agentcli.core.messages import Json
from agentcli.tui.screens.choices import PAUSE
from tests.support.emulator import Emulator, QuickStream
from tests.support.fork_server import TERMINAL_BACKGROUND, TYPING_PAUSE, ForkedProcess, can_fork, forked
from tests.support.server import LoopbackServer

REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
"""Only ever waited for when a test fails."""
ENDED_SECONDS = 3.0
"""The same, once the program has ended: only its children and files can still change."""
LOOK_AGAIN_SECONDS = 0.02
"""Between two looks at what does not paint (files, requests, processes)."""
NOT_PAINTED_SECONDS = 1.0
"""The same for what does: it is looked at as soon as it is painted. Only its process may end without that."""
PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"
PROMPT_MARK = "❯"

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "end": "\x1b[F",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "ctrl+enter": "\x1b[13;5u",
    **{f"ctrl+{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}

_TAKE_THE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_STRING = re.compile(rb"\x1b\]([^\x07\x1b]*)(?:\x07|\x1b\\)|\x1b\\")
_UNKNOWN = re.compile(rb"\x1b\[([<>=?])[0-9;]*u|\x1b\[\?[0-9;]*\$p|\x1b\[[0-9;]*t|\x1b\[[0-9]* q")
_CUT_OFF = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?\Z")
_ANSWERS = {
    b"\x1b]11;?\x07": b"\x1b]11;rgb:%02x/%02x/%02x\x1b\\" % TERMINAL_BACKGROUND,
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",
}
"""What an ordinary terminal says when it is asked: it is dark, and can hold a frame back until it is whole."""


class TerminalProgram:
    """`screen` and `text` are what is on the screen, `raw` is all that was ever written to it."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        url: str = "",
        columns: int = 100,
        rows: int = 30,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = ("-m", "agentcli"),
        project: str = "work",
        fresh: bool = False,
    ) -> None:
        """`folder` gets a home and a project folder, or has them from the program before. `environ`: variables more, or
        with "" as value fewer. `command`: what Python runs. `project`: the name of the project folder. `fresh`:
        a Python that has nothing loaded, for tests of the start."""
        self.home, self.work = folder / "home", folder / project
        self.raw = bytearray()
        self.titles: list[str] = []
        """Of the window, one after the other."""
        self._arguments = [sys.executable, *command, *arguments]
        self._is_fresh = fresh
        self._size = (columns, rows)
        self._environ = self._variables(url, environ or {})
        self._emulator = Emulator(columns, rows)
        self._stream = QuickStream(self._emulator)
        self._held = b""
        self._screen: list[str] = []
        """The screen at the last look; empty when something was painted since."""
        self._painted = asyncio.Event()

    def _variables(self, url: str, more: Mapping[str, str]) -> dict[str, str]:
        variables = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "ANTHROPIC_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": url,
            # What is asked about and what is allowed should not depend on the machine.
            "AGENTCLI_SANDBOX": "off",
            "AGENTCLI_SESSION_TITLES": "off",
            **more,
        }
        return {name: value for name, value in variables.items() if value}

    # ------------------------------------------------------------------------------------------------- life cycle

    async def __aenter__(self) -> Self:
        for folder in (self.home, self.work):
            folder.mkdir(parents=True, exist_ok=True)
        self.fd, self._slave = os.openpty()
        os.set_blocking(self.fd, False)
        self.resize(*self._size)
        self.attributes_before = termios.tcgetattr(self._slave)
        self.process: subprocess.Popen[bytes] | ForkedProcess
        if can_fork(self._environ) and not self._is_fresh:
            self.process = forked(self._arguments[1:], self.work, self._environ, self._slave)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _TAKE_THE_TERMINAL, *self._arguments],
                stdin=self._slave,
                stdout=self._slave,
                stderr=self._slave,
                cwd=self.work,
                env=self._environ,
                start_new_session=True,
            )
        asyncio.get_running_loop().add_reader(self.fd, self._read)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in processes_in(self.work):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.hang_up()
        os.close(self._slave)

    def hang_up(self) -> None:
        """The window is closed."""
        if self.fd >= 0:
            asyncio.get_running_loop().remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def end(self) -> int:
        """The exit code, once the program has ended, and no process of its folder is left."""
        await self.wait_for(lambda: self.process.poll() is not None)
        while self._read():
            pass
        await self.wait_for(lambda: not processes_in(self.work), seconds=3)
        return self.process.returncode

    async def leave(self) -> int:
        """Quit, whatever runs and whatever stands in the box's line: in the app with keys, which paint less than the
        menu of commands."""
        await self.press("ctrl+u")
        if 1004 in self.modes:
            await self.press("ctrl+d", "ctrl+d")
        else:
            await self.submit("/exit")
        return await self.end()

    @property
    def is_stopped(self) -> bool:
        return _state_of(self.process.pid) == "T"

    @property
    def is_asleep(self) -> bool:
        """Whether it waits for something. On a busy machine it may have work to do and wait for a processor. True where
        there is no /proc to tell."""
        return _state_of(self.process.pid) in ("S", "")

    @property
    def processor_seconds(self) -> float:
        """What the program has used so far, without its children: does not depend on what else the machine does."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # ------------------------------------------------------------------------------------------------- what is seen

    @property
    def screen(self) -> list[str]:
        if not self._screen:
            self._screen = [row.rstrip() for row in self._emulator.display]
        return self._screen

    @property
    def text(self) -> str:
        return "\n".join(self.screen)

    @property
    def emulator(self) -> Emulator:
        """With colours; for pictures."""
        return self._emulator

    @property
    def is_restored(self) -> bool:
        """Modes as before, and the line discipline as before."""
        return self._emulator.is_as_before and termios.tcgetattr(self._slave) == self.attributes_before

    @property
    def modes(self) -> set[int]:
        return self._emulator.private_modes

    @property
    def box(self) -> str:
        """What stands in the prompt box, as one line."""
        first = max((at for at, row in enumerate(self.screen) if row.startswith(PROMPT_MARK)), default=None)
        if first is None:
            return ""
        rows = [self.screen[first]]
        for row in self.screen[first + 1 : -1]:
            if not row.startswith("  "):
                break
            rows.append(row)
        return "".join(row[2:] for row in rows)

    async def wait_for(
        self, what: str | Callable[[], object], seconds: float = PATIENCE_SECONDS, *, gone: bool = False
    ) -> None:
        """Until a text is on the screen (with `gone`: is not any more), or a condition holds."""
        await self._wait(what, seconds, LOOK_AGAIN_SECONDS if callable(what) else NOT_PAINTED_SECONDS, gone=gone)

    async def _wait(
        self, what: str | Callable[[], object], seconds: float, look_again: float, *, gone: bool = False
    ) -> None:

        def holds() -> bool:
            # A frame that is only half there says nothing.
            if 2026 in self.modes and self.process.poll() is None:
                return False
            return bool(what()) if callable(what) else (what in self.text) != gone

        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not holds():
            if self.process.poll() is not None:
                deadline = min(deadline, loop.time() + ENDED_SECONDS)
            if loop.time() > deadline:
                tail = bytes(self.raw[-400:])
                raise AssertionError(f"{what!r} was waited for (gone: {gone}); the screen:\n{self.text}\n{tail!r}")
            self._painted.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_again):
                    await self._painted.wait()

    async def ready(self) -> None:
        """Until the app has taken over from the instant prompt, and the engine is there: its model is named."""
        await self._wait(
            lambda: 1004 in self.modes and "opus" in self.screen[-1], PATIENCE_SECONDS, NOT_PAINTED_SECONDS
        )

    def _read(self) -> bool:
        """Whether something came."""
        if self.fd < 0:
            return False
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.fd)
            return False
        self.raw += data
        self._screen = []
        self._emulate(self._held + data)
        self._painted.set()
        return True

    def _emulate(self, data: bytes) -> None:
        cut = _CUT_OFF.search(data)
        self._held = data[cut.start() :] if cut else b""
        data = data[: cut.start()] if cut else data
        for question, answer in _ANSWERS.items():
            if question in data:
                os.write(self.fd, answer)
        for found in _UNKNOWN.finditer(data):
            if found[1] in (b">", b"<"):
                # Taking off what is not there is no mistake.
                self._emulator.keyboards = max(0, self._emulator.keyboards + (1 if found[1] == b">" else -1))
        for found in _STRING.finditer(data):
            if found[1] and found[1][:2] in (b"0;", b"2;"):
                self.titles.append(found[1][2:].decode())
        self._stream.feed(_UNKNOWN.sub(b"", _STRING.sub(b"", data)))

    # ------------------------------------------------------------------------------------------------- what is done

    async def type(self, text: str | bytes) -> None:
        # Of a paste of megabytes, the rest is not copied for each piece.
        data = memoryview(text.encode() if isinstance(text, str) else text)
        while data:
            try:
                data = data[os.write(self.fd, data[:4096]) :]
            except BlockingIOError:
                await self._writable()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.type(KEYS.get(key, key))

    async def paste(self, text: str) -> None:
        await self.type(PASTE_BEGIN + text.encode() + PASTE_END)

    async def submit(self, text: str) -> None:
        await self.type(text)
        await self.press("enter")

    async def answer(self, *keys: str) -> None:
        """Press keys in a dialog that has just come up: after the pause in which keys still belong to the prompt."""
        await asyncio.sleep(2 * (TYPING_PAUSE if isinstance(self.process, ForkedProcess) else PAUSE))
        await self.press(*keys)

    def resize(self, columns: int, rows: int) -> None:
        # The emulator first: what is painted for the new size must not meet the old one.
        self._emulator.resize(rows, columns)
        self._screen = []
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        free: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self.fd, lambda: None if free.done() else free.set_result(None))
        try:
            await free
        finally:
            loop.remove_writer(self.fd)


@contextlib.asynccontextmanager
async def app_with(
    folder: Path, *replies: Json | str, arguments: Sequence[str] = (), **rest: Any
) -> AsyncIterator[tuple[TerminalProgram, LoopbackServer]]:
    """The program, and the server that answers it with these replies."""
    async with (
        LoopbackServer(*replies) as server,
        TerminalProgram(folder, *arguments, url=server.url, **rest) as app,
    ):
        yield app, server


async def earlier_session(folder: Path, prompt: str, *replies: Json | str, arguments: Sequence[str] = ()) -> None:
    """Leave a session behind, with a headless run: the app would take four times as much of the processor."""
    async with app_with(folder, *replies, arguments=["-p", prompt, *arguments]) as (program, _server):
        assert await program.end() == 0, program.text


def processes_in(folder: Path) -> list[int]:
    """Processes whose current folder is this one and that run: the program, and whoever it left behind."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 -- with pathlib it takes three times as long
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/cwd") == str(folder) and _state_of(int(name)) != "Z":  # noqa: PTH115
                    found.append(int(name))
    return found


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
