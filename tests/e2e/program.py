"""The program as users have it: a real process with its own home, talking HTTP to a loopback server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fork_server import PipedProcess, can_fork, forked_with_pipes

REPOSITORY = Path(__file__).parents[2]
PATH_WITH_PYTHON = f"{Path(sys.base_prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}"
"""For programs that run `python3`: that of a version manager is a shell script which takes ten times as long."""
_MAX_LINE = 4 * 1024 * 1024
_PATIENCE_SECONDS = 90.0
"""Only ever waited for when a test fails."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def kinds(self) -> list[str]:
        return [frame.get("subtype") or frame["type"] for frame in self.frames]


class Running:
    """A process that is being talked to. Always `finish` it."""

    def __init__(self, process: asyncio.subprocess.Process | PipedProcess) -> None:
        self.process = process
        self._lines: list[bytes] = []

    def send(self, frame: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")

    def say(self, text: str) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": text}})

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def frame(self, kind: str) -> dict[str, Any]:
        """Read until a frame of this type or subtype."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self._lines.append(line)
            frame: dict[str, Any] = json.loads(line)
            if kind in (frame["type"], frame.get("subtype")):
                return frame
        raise AssertionError(f"no {kind} frame came")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def finish(self) -> Ended:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            out, err = await self.process.communicate()
        code = self.process.returncode
        assert code is not None
        return Ended(code, (b"".join(self._lines) + out).decode(), err.decode())


class Program:
    is_fresh = False
    """Whether to start a new interpreter instead of forking one that has all modules loaded."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.environ = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "sk-test",
            "AGENTCLI_MAX_RETRIES": "1",
            "AGENTCLI_SESSION_TITLES": "off",
        }
        # The notice about auto mode comes once per user, and only where a sandbox works.
        state = self.home / ".local" / "state" / "agentcli"
        state.mkdir(parents=True, mode=0o700)
        (state / "auto-mode-offered").touch()
        if shutil.which("bwrap") is None:
            # Without a sandbox every run reports that; what the tests compare should not depend on the machine.
            self.environ["AGENTCLI_SANDBOX"] = "off"

    def talk_to(self, url: str) -> None:
        self.environ["ANTHROPIC_BASE_URL"] = url

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "agentcli"]

    async def start(self, *arguments: str, stdin: int = asyncio.subprocess.PIPE) -> Running:
        if can_fork(self.environ) and not self.is_fresh:
            words = [*self.command[1:], *arguments]
            return Running(await forked_with_pipes(words, self.work, self.environ, stdin, _MAX_LINE))
        process = await asyncio.create_subprocess_exec(
            *self.command,
            *arguments,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.work,
            env=self.environ,
            limit=_MAX_LINE,
        )
        return Running(process)

    async def run(self, *arguments: str, stdin: bytes = b"") -> Ended:
        running = await self.start(*arguments)
        assert running.process.stdin is not None
        running.process.stdin.write(stdin)
        running.end_input()
        return await running.finish()

    async def shell(self, line: str, *arguments: str) -> Ended:
        """`$AGENTCLI` in the line is the program with these arguments."""
        quoted = " ".join(f"'{word}'" for word in (*self.command, *arguments))
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            line.replace("$AGENTCLI", quoted),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.work,
            env=self.environ,
        )
        return await Running(process).finish()


def processes_in(folder: Path) -> list[str]:
    """Command lines of the processes whose current folder is this one: children that were left behind."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in found if line]


async def until_gone(folder: Path) -> Sequence[str]:
    """What is left after a second; processes take a moment to end after a signal."""
    for _attempt in range(100):
        if not processes_in(folder):
            return ()
        await asyncio.sleep(0.01)
    return processes_in(folder)
