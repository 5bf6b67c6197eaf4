"""Start the program by forking a Python that has all modules loaded already, instead of loading them in every test.

Loading textual, anthropic, agentcli and the rest takes half a second of CPU or more, and several hundred tests start
the program. A test of the start itself, or of what is imported from where, asks for a fresh interpreter
(`TerminalProgram(..., fresh=True)`, `Program.is_fresh`). Code that replaces a part of a module (`-c`) has to replace it
in every module that has imported it by name.

The pause that keeps a key typed by chance from answering a dialog of the app is short here: a test that answers one
waits for it. Tests of the dialogs check it with a clock of their own. Plain mode keeps its pause: only
`tests/e2e/test_plain.py` checks that.

A shell or another program that starts the program by its path is given `fork_client.py` instead (`forking_command`).

    python -m tests.support.fork_server FD    (started by `forked`; FD is the socket that it listens on)

The workers of one run of pytest share a server. It ends when none of them is connected any more.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import unsynced

_LIBRARIES = [
    "anthropic",
    "anthropic.resources.messages",
    "httpx2",
    "httpcore2",
    "anyio._backends._asyncio",
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
    "prompt_toolkit.patch_stdout",
    "prompt_toolkit.key_binding.bindings.search",
    "aiofiles",
    "watchfiles",
    "typer",
    "typer._adapters",
    "typer._click.decorators",
    "ctypes",
    "asyncio",
    "email.parser",
    "difflib",
    "tomllib",
    "sqlite3",
    "tree_sitter",
    "tree_sitter_bash",
    "mcp.client.auth.oauth2",
    "mcp.client.streamable_http",
    "mcp.server",
    "jsonschema",
]
_PACKAGE = "agentcli"
_REPOSITORY = Path(__file__).parents[2]
_MAX_REQUEST = 1 << 20
_THREADS_SECONDS = 5.0
_CONNECT_SECONDS = 10.0
_MAX_WORKERS = 64
_BASE = {"PYTHONPATH": str(_REPOSITORY), "LANG": "C.UTF-8"}
TYPING_PAUSE = 0.1
"""Seconds without a key before a dialog of a forked app takes a key as an answer."""
TERMINAL_BACKGROUND = (0x1E, 0x1E, 0x1E)
"""Colour that the emulated terminal reports: stylesheets depend on it."""
_DECIDED_AT_START = ("PYTHON", "TEXTUAL", "LC_", "LANG")


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether nothing in the environment is read by the interpreter or a library while it loads."""
    return all(_BASE.get(name) == value for name, value in environ.items() if name.startswith(_DECIDED_AT_START))


# ------------------------------------------------------------------------------------------------------ in the tests

processor_seconds = 0.0
"""What the programs that this process had forked have used, up to their ends."""


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use, for a process whose parent is the server."""

    def __init__(self, server: _Server, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        self._server.read_endings(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
            self._server.read_endings(left)
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
        self._socket = connect_or_start(_this_run())
        self._running: dict[int, ForkedProcess] = {}

    def start(
        self, command: Sequence[str], cwd: Path, environ: Mapping[str, str], streams: Sequence[int], *, terminal: bool
    ) -> ForkedProcess:
        fields = {"command": list(command), "cwd": str(cwd), "environ": dict(environ), "terminal": terminal}
        socket.send_fds(self._socket, [json.dumps(fields).encode()], list(streams))
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
            raise ConnectionResetError("the server that starts programs for tests has ended")
        message: dict[str, Any] = json.loads(data)
        if "status" not in message:
            pid: int = message["pid"]
            return pid
        global processor_seconds
        processor_seconds += message["seconds"]
        if (process := self._running.pop(message["pid"], None)) is not None:
            process.returncode = os.waitstatus_to_exitcode(message["status"])
        return None

    def close(self) -> None:
        self._socket.close()


def _address(run: str) -> str:
    return f"agentcli-tests-{run}"


def _this_run() -> str:
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())


def connect_or_start(run: str) -> socket.socket:
    """A connection to the server of this run of pytest. Whoever gets hold of the server's address starts it."""
    address = f"\0{_address(run)}"
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            try:
                listener.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                listener.listen(_MAX_WORKERS)
                _start(listener)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(address)
        except ConnectionRefusedError:
            # Another worker has the address and does not listen yet, or its server is just ending.
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return connection


def _start(listener: socket.socket) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.support.fork_server", str(listener.fileno())],
        pass_fds=[listener.fileno()],
        stdin=subprocess.DEVNULL,
        cwd=_REPOSITORY,
        env={"PATH": os.environ.get("PATH", ""), **_BASE},
        start_new_session=True,
        check=True,
    )


_server: _Server | None = None


def forked(command: Sequence[str], cwd: Path, environ: Mapping[str, str], terminal: int) -> ForkedProcess:
    """Start `python COMMAND` (`-m module …` or `-c code …`) as leader of a session of its own on this terminal."""
    return _fork(command, cwd, environ, [terminal] * 3, terminal=True)


def forked_with_streams(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], streams: Sequence[int]
) -> ForkedProcess:
    """The same without a terminal. `streams`: file descriptors for input, output and errors."""
    return _fork(command, cwd, environ, streams, terminal=False)


def forking_command(*command: str) -> list[str]:
    """What a shell or another program runs in place of `python COMMAND` to have it forked."""
    _connected()
    return [
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).with_name("fork_client.py")),
        _address(_this_run()),
        *command,
    ]


class PipedProcess:
    """The part of `asyncio.subprocess.Process` that tests use, for a forked process with pipes as standard streams."""

    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, process: ForkedProcess) -> None:
        self.pid = process.pid
        self.send_signal = process.send_signal
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    async def communicate(self) -> tuple[bytes, bytes]:
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        while self.returncode is None:
            await asyncio.sleep(0.002)
        if self.stdin is not None:
            self.stdin.close()
        return out, err


async def forked_with_pipes(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], stdin: int, limit: int
) -> PipedProcess:
    """The same without a terminal. `stdin`: a file descriptor, or `asyncio.subprocess.PIPE`."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as theirs:

        def pipe(*, child_reads: bool) -> tuple[int, int]:
            """Our end of a new pipe, and the child's."""
            reading, writing = os.pipe()
            ours, its = (writing, reading) if child_reads else (reading, writing)
            theirs.callback(os.close, its)
            return ours, its

        writing: int | None = None
        if stdin == asyncio.subprocess.PIPE:
            writing, stdin = pipe(child_reads=True)
        elif stdin == asyncio.subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
            theirs.callback(os.close, stdin)
        (out, its_out), (err, its_err) = pipe(child_reads=False), pipe(child_reads=False)
        streams = [stdin, its_out, its_err]
        process = PipedProcess(_fork(command, cwd, environ, streams, terminal=False))
    process.stdout, process.stderr = asyncio.StreamReader(limit), asyncio.StreamReader(limit)
    for reader, end in ((process.stdout, out), (process.stderr, err)):
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda protocol=protocol: protocol, os.fdopen(end, "rb", 0))  # type: ignore[misc]
    if writing is not None:
        transport, flow = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(writing, "wb", 0)
        )
        process.stdin = asyncio.StreamWriter(transport, flow, None, loop)
    return process


def _connected() -> _Server:
    global _server
    if _server is None:
        _server = _Server()
        atexit.register(_server.close)
    return _server


def _fork(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], streams: Sequence[int], *, terminal: bool
) -> ForkedProcess:
    global _server
    for _attempt in range(2):
        server = _connected()
        try:
            return server.start(command, cwd, environ, streams, terminal=terminal)
        except (ConnectionResetError, BrokenPipeError):
            # It ended with the last worker that used it, or by a signal.
            server.close()
            _server = None
    raise RuntimeError("the server that starts programs for tests ends again and again")


# ----------------------------------------------------------------------------------------------------- in the server


def serve(listener: socket.socket) -> dict[str, Any] | None:
    """Fork a child for every request. Returns the request in the child, and None in the server when tests are over."""
    waking, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    clients: set[socket.socket] = set()
    alive: dict[int, socket.socket] = {}
    """Who asked for a process, by its pid."""
    while True:
        ready, _, _ = select.select([listener, waking, *clients], [], [])
        if waking in ready:
            os.read(waking, 4096)
            for pid, client in list(alive.items()):
                ended, status, usage = os.wait4(pid, os.WNOHANG)
                if ended:
                    del alive[pid]
                    seconds = usage.ru_utime + usage.ru_stime
                    with contextlib.suppress(OSError):
                        client.send(json.dumps({"pid": pid, "status": status, "seconds": seconds}).encode())
        if listener in ready:
            clients.add(listener.accept()[0])
        for client in clients & set(ready):
            try:
                data, fds, _, _ = socket.recv_fds(client, _MAX_REQUEST, 3)
            except ConnectionResetError:
                data, fds = b"", []
            if not data:
                clients.discard(client)
                client.close()
                if not clients:
                    return None
                continue
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # Before its pid is known: a signal to its process group must not reach the server's.
                os.setsid()
                client.send(json.dumps({"pid": os.getpid()}).encode())
                os.close(waking)
                os.close(wakes)
                for connection in (listener, *clients):
                    connection.close()
                return {**json.loads(data), "streams": fds}
            for number in fds:
                os.close(number)
            alive[pid] = client


def _become_program(request: dict[str, Any]) -> None:
    """Make this process what a fresh `python` would be."""
    import fcntl
    import termios

    if request["terminal"]:
        fcntl.ioctl(request["streams"][0], termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    take_streams(request["streams"])
    option, *rest = request["command"]
    sys.argv = rest if option == "-m" else ["-c", *rest[1:]]
    sys.path[0] = request["cwd"]


def take_streams(streams: Sequence[int]) -> None:
    """Make these file descriptors the standard streams of this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else "surrogateescape"
        buffering = 1 if name == "stderr" else -1
        stream = os.fdopen(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


async def _use_app_once() -> None:
    """Open the app without a terminal, let it answer a prompt with tools, ask about a command and show a page and a
    list: forked programs inherit parsed stylesheets and filled caches."""
    import tempfile

    from agentcli.assemble import Options
    from agentcli.interactive.drafts import Draft
    from agentcli.tui.app import AgentApp
    from agentcli.tui.start import Start
    from agentcli.tui.startup.preferences import load_preferences
    from agentcli.tui.terminal.input import BackgroundColour
    from tests.support import quick_lookups, stylesheet_cache
    from tests.support.scripts import call, provider_for, reply

    quick_lookups.install()
    stylesheet_cache.install()
    with tempfile.TemporaryDirectory() as folder:
        environ = {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environ["ANTHROPIC_API_KEY"] = "sk-test"
        replies = (
            reply(call("Glob", pattern="*"), call("Bash", command="ls | wc -l")),
            "**Two** files.",
            reply(call("Bash", command="touch it")),
        )
        options = Options(
            cwd=Path(folder),
            environ=environ,
            interactive=True,
            provider=provider_for(*replies),
            settings='{"sandbox": {"mode": "off"}}',
        )
        start = Start(make_options=lambda: options, cwd=options.cwd, environ=environ)
        app = AgentApp(start, load_preferences(options.cwd, environ, None, None))
        async with app.run_test(size=(100, 30), tooltips=True, notifications=True) as pilot:
            await app.opener.engine_ready.wait()
            app.post_message(BackgroundColour(TERMINAL_BACKGROUND))
            app.chat.send(Draft("hello"))
            while "files" not in app.chat.transcript.source_text() or app.chat.session.busy:
                await pilot.pause(0.01)
            app.chat.send(Draft("touch it"))
            while not app.screen.is_modal:
                await pilot.pause(0.01)
            await pilot.press("escape")
            while app.chat.session.busy:
                await pilot.pause(0.01)
            for page in ("context", "model"):
                app.chat.actions.run(page)
                while not app.screen.is_modal:
                    await pilot.pause(0.01)
                await pilot.pause()
                await pilot.press("escape")
                while app.screen.is_modal:
                    await pilot.pause(0.01)
            await app.chat.session.close()
    # Programs read it from their own environment.
    tempfile.tempdir = None


def _share_key_bindings() -> None:
    """Plain mode has up to three prompts, and prompt_toolkit makes the same 600 bindings for each of them."""
    from prompt_toolkit.application import application
    from prompt_toolkit.key_binding.defaults import load_key_bindings

    bindings = load_key_bindings()
    application.load_key_bindings = lambda: bindings


def _shorten_pause() -> None:
    """Before other modules import it."""
    from agentcli.tui.screens import choices

    choices.PAUSE = TYPING_PAUSE


def _try_sandbox_once() -> None:
    from agentcli.sandbox.linux.probe import probe
    from tests.support import sandbox_probe

    sandbox_probe.install()
    probe(os.environ, (), None)


def _compile_patterns() -> None:
    """Those that every program compiles once it talks to a server, 3 ms each time."""
    from agentcli.core.text.secret_text import is_secret_name
    from agentcli.providers.transports.wire import is_local_url

    is_secret_name("")
    is_local_url("http://localhost")


def end_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(_THREADS_SECONDS)
    left = [thread.name for thread in threading.enumerate()]
    assert len(left) == 1, f"a fork would lose the other threads: {left}"


def load_modules() -> None:
    """Import agentcli and the libraries that it and its tests use, also those that it imports late, and have its frozen
    classes compile what they would compile once they are used."""
    import importlib
    import pkgutil

    for name in _LIBRARIES:
        importlib.import_module(name)
    package = importlib.import_module(_PACKAGE)
    for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
        if not module.name.endswith("__main__"):
            for kind in vars(importlib.import_module(module.name)).values():
                if isinstance(kind, type) and "__frozen_fields__" in vars(kind):
                    _ = kind.__init__


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    if os.fork():
        # Workers come and go: the server is nobody's child.
        os._exit(0)
    unsynced.install()
    _shorten_pause()
    load_modules()
    asyncio.run(_use_app_once())
    _share_key_bindings()
    # Building it takes 40 ms.
    sys.modules["agentcli.cli.app"].command_tree()
    _try_sandbox_once()
    _compile_patterns()
    end_threads()
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()
    # Counting them walks through all objects of the server, 30 ms in every app.
    gc.get_freeze_count = lambda: frozen
    request = serve(listener)
    if request is not None:
        _become_program(request)
        run(*request["command"][:2])


def run(option: str, what: str) -> None:
    """Run it and end the process as Python does, except that modules are not taken down: that touches, and so copies,
    all of the memory that is shared with the server."""
    import runpy

    code = 0
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
