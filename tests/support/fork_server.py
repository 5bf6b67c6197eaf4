"""Starts the program by forking a Python that has the libraries loaded already, instead of loading them in every test.

Loading textual, anthropic and the rest takes about 1.7 s of CPU, and over a hundred tests start the program. Only
libraries are loaded beforehand: agentcli's own modules are loaded in the child, in the order of a real start.
A test of the start itself asks for a fresh interpreter (`TerminalProgram(..., fresh=True)`).

    python -m tests.support.fork_server FD    (started by `forked`; FD is its end of a socket pair)
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_LIBRARIES = [
    "anthropic",
    "anthropic.resources.messages",
    "httpx2",
    "pydantic",
    "textual.app",
    "textual.widgets",
    "textual.screen",
    "textual.pilot",
    "rich.console",
    "rich.markdown",
    "pygments.lexers.python",
    "pygments.styles",
    "markdown_it",
    "prompt_toolkit",
    "prompt_toolkit.shortcuts",
    "aiofiles",
    "watchfiles",
    "typer",
    "asyncio",
    "email.parser",
    "difflib",
    "tomllib",
    "sqlite3",
    "tree_sitter",
    "tree_sitter_bash",
]
_REPOSITORY = Path(__file__).parents[2]
_LARGEST_REQUEST = 1 << 20
_BASE = {"PYTHONPATH": str(_REPOSITORY), "LANG": "C.UTF-8"}
_DECIDED_AT_START = ("PYTHON", "TEXTUAL", "LC_", "LANG")


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether nothing in the environment is read by the interpreter or a library while it loads."""
    return all(_BASE.get(name) == value for name, value in environ.items() if name.startswith(_DECIDED_AT_START))


# ------------------------------------------------------------------------------------------------------ in the tests


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use, for a process whose parent is the server."""

    def __init__(self, server: _Server, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        self._server.read_endings(0)
        return self.returncode

    def wait(self) -> int:
        while self.returncode is None:
            self._server.read_endings(None)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Server:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=_REPOSITORY,
                env={"PATH": os.environ.get("PATH", ""), **_BASE},
                start_new_session=True,
            )
        self._running: dict[int, ForkedProcess] = {}

    def start(self, command: Sequence[str], cwd: Path, environ: Mapping[str, str], terminal: int) -> ForkedProcess:
        request = json.dumps({"command": list(command), "cwd": str(cwd), "environ": dict(environ)}).encode()
        socket.send_fds(self._socket, [request], [terminal])
        pid = None
        while pid is None:
            pid = self._read()
        process = self._running[pid] = ForkedProcess(self, pid)
        return process

    def read_endings(self, seconds: float | None) -> None:
        while select.select([self._socket], [], [], seconds)[0]:
            self._read()
            seconds = 0

    def _read(self) -> int | None:
        """Take one message: the pid of a process that was started, or None for one that has ended."""
        data = self._socket.recv(4096)
        if not data:
            raise RuntimeError("the server that starts programs for tests has ended")
        message: dict[str, int] = json.loads(data)
        if "status" not in message:
            return message["pid"]
        if (process := self._running.pop(message["pid"], None)) is not None:
            process.returncode = os.waitstatus_to_exitcode(message["status"])
        return None

    def close(self) -> None:
        self._socket.close()
        self.process.wait()


_server: _Server | None = None


def forked(command: Sequence[str], cwd: Path, environ: Mapping[str, str], terminal: int) -> ForkedProcess:
    """Start `python COMMAND` (`-m module …` or `-c code …`) as leader of a session of its own on this terminal."""
    global _server
    if _server is None:
        _server = _Server()
        atexit.register(_server.close)
    return _server.start(command, cwd, environ, terminal)


def server_pid() -> int | None:
    """The server lives as long as the tests do: it is not a leak of the test that happened to need it first."""
    return _server.process.pid if _server is not None else None


# ----------------------------------------------------------------------------------------------------- in the server


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork a child for every request. Returns the request in the child, and None in the server when tests are over."""
    waking, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    alive: set[int] = set()
    while True:
        ready, _, _ = select.select([control, waking], [], [])
        if waking in ready:
            os.read(waking, 4096)
            for pid in list(alive):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    alive.discard(pid)
                    with contextlib.suppress(OSError):
                        control.send(json.dumps({"pid": pid, "status": status}).encode())
        if control in ready:
            data, fds, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 1)
            if not data:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(waking)
                os.close(wakes)
                control.close()
                return {**json.loads(data), "terminal": fds[0]}
            os.close(fds[0])
            alive.add(pid)
            control.send(json.dumps({"pid": pid}).encode())


def _become_program(request: dict[str, Any]) -> None:
    """Make this process what a fresh `python` would be."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(request["terminal"], termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(request["terminal"], number)
    os.close(request["terminal"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else "surrogateescape"
        stream = os.fdopen(number, mode, buffering=1, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    option, *rest = request["command"]
    sys.argv = rest if option == "-m" else ["-c", *rest[1:]]
    sys.path[0] = request["cwd"]


def main() -> None:
    import importlib
    import runpy

    control = socket.socket(fileno=int(sys.argv[1]))
    for name in _LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    request = _serve(control)
    if request is not None:
        _become_program(request)
        option, what, *_ = request["command"]
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
