"""Test the sandbox's promises: commands inside try forbidden actions, and the outcome is checked from outside.

Everything happens in scratch folders, with a scratch home and a scratch quarantine; no file of the user is touched,
whatever the outcome. Each topic takes 20 to 300 ms and is reported as soon as it is known.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Self

from agentcli.core.frozen import frozen
from agentcli.core.permission import ORDINARY, Grant
from agentcli.core.processes.launch import Launch, Launcher
from agentcli.core.processes.own_programs import isolated_python, run_program
from agentcli.sandbox.limits import ResourceLimits
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.plan import TrialFolders
from agentcli.sandbox.quarantine.store import Quarantine
from agentcli.sandbox.seatbelt import SeatbeltLauncher
from agentcli.tools.shell.environment import child_environment

Outcome = Literal["holds", "broken", "untried"]

_SECONDS = 10.0
_SECRET_VARIABLES = ("GITHUB_PAT", "OPENAI_KEY", "DATABASE_URL", "SMTP_PASS", "CI_JOB_JWT", "HTTPS_PROXY")
_REFUSED_ADDRESS = "127.0.0.2"
"""Another loopback address of this machine, which is not the allowed one."""
_WORKS = "commands write in the project"
_STARTED = "started"
"""First output of every script. Without it the script did not run, and a refusal proves nothing."""

_ISOLATION = """
import ctypes, fcntl, os, socket
print("started")
is_own = os.readlink("/proc/self/ns/pid") != sys.argv[1] and int(os.readlink("/proc/self")) == os.getpid()
print("own-processes", is_own)
def error_of(work):
    try:
        work()
    except OSError as error:
        return error.errno
print("typing", error_of(lambda: fcntl.ioctl(os.open("/dev/null", os.O_RDWR), 0x5412, b"x")))
print("unix", error_of(lambda: socket.socket(socket.AF_UNIX)))
libc = ctypes.CDLL(None, use_errno=True)
print("ring", ctypes.get_errno() if libc.syscall(425, 1, 0) < 0 else 0)
"""
_DIRECT = """
import socket
print("started")
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
    print("connected")
except OSError:
    print("refused")
"""
_THROUGH_PROXY = """
import os, socket
print("started")
port = int(os.environ["HTTP_PROXY"].rpartition(":")[2])
for host in sys.argv[2:]:
    with socket.create_connection(("127.0.0.1", port), 5) as proxy:
        proxy.sendall(f"GET http://{host}:{sys.argv[1]}/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n".encode())
        print(host, proxy.recv(4096).split(b" ", 2)[1].decode())
"""
_MEMORY = """
import time
print("started", flush=True)
taken = b"x" * (int(sys.argv[1]) << 20)
time.sleep(3)
"""
_PROCESSES = "echo started; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 3 & done; wait"
_MAX_PROCESSES = 10
_MAX_MEMORY_MB = 64
"""MiB; the interpreter itself takes about ten."""
_EPERM, _ENOSYS, _EAFNOSUPPORT = "1", "38", "97"


@frozen
class Proof:
    topic: str
    promise: str
    """The promise as a clause: `writes outside are refused`."""
    outcome: Outcome
    reason: str = ""
    """Why it was not tested."""


def prove(launcher: Launcher, environ: Mapping[str, str], root: Path) -> Iterator[list[Proof]]:
    """Run the tests, topic by topic. `root`: a private folder that commands may not write to. Raises `OSError`."""
    if not isinstance(launcher, BubblewrapLauncher | SeatbeltLauncher):
        return
    scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix="doctor-", dir=root)))
    try:
        trial = _LinuxTrial if isinstance(launcher, BubblewrapLauncher) else _Trial
        yield from trial(scratch, launcher, environ).proofs()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Trial:
    def __init__(
        self, scratch: Path, launcher: BubblewrapLauncher | SeatbeltLauncher, environ: Mapping[str, str]
    ) -> None:
        self.outside = scratch / "outside"
        self.folders = TrialFolders(
            project=scratch / "project",
            installation=scratch / "project" / "installed",
            home=scratch / "home",
            secret=scratch / "secret",
            state=scratch / "state",
        )
        for folder in (self.outside, self.folders.project, *map(self._folder, ("installation", "home", "secret"))):
            folder.mkdir()
        self.folders.state.mkdir(0o700)
        self.token = os.urandom(16).hex()
        planted = dict.fromkeys(_SECRET_VARIABLES, self.token)
        planted |= {"HTTPS_PROXY": f"http://kim:{self.token}@proxy.invalid:1", "HOME": str(self.folders.home)}
        self.environ = child_environment({**environ, **planted})
        self.launcher: BubblewrapLauncher | SeatbeltLauncher = launcher.for_trial(self.folders)

    def _folder(self, name: str) -> Path:
        path: Path = getattr(self.folders, name)
        return path

    def proofs(self) -> Iterator[list[Proof]]:
        try:
            for name, topic in self.topics():
                proofs = [replace(proof, topic=name) for proof in topic()]
                yield proofs
                if proofs[0].promise == _WORKS and proofs[0].outcome == "broken":
                    # If nothing works at all, a refusal proves nothing.
                    return
        finally:
            self.launcher.close()

    def topics(self) -> Sequence[tuple[str, Callable[[], Iterator[Proof]]]]:
        return (("files", self.files), ("secrets", self.secrets), ("quarantine", self.planting))

    def files(self) -> Iterator[Proof]:
        project, outside = self.folders.project, self.outside
        shown = self.shell("echo made > inside && cat inside")
        yield _proof(_WORKS, "made" in shown and (project / "inside").exists())
        self.shell(f"echo planted > '{outside}/file'; echo planted > '{self.folders.installation}/module.pth'")
        yield _proof("writes outside are refused", not any(outside.iterdir()))
        # The installation is never written to, even here: only test whether it is writable.
        shown = self.shell(f"echo {_STARTED}; [ -w '{Path(__file__).parent}' ] && echo writable")
        is_closed = not any(self.folders.installation.iterdir()) and shown.split() == [_STARTED]
        yield _proof("agentcli's own installation is read-only", is_closed)

    def secrets(self) -> Iterator[Proof]:
        home = self.folders.home
        for file in (self.folders.secret / "key", home / ".ssh" / "id_ed25519", home / ".aws" / "credentials"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(self.token)
        (home / ".npmrc").write_text(
            f"registry=https://npm.example.invalid/\n//npm.example.invalid/:_authToken={self.token}\n"
        )
        files = f"'{self.folders.secret}/key' '{home}/.ssh/id_ed25519' '{home}/.aws/credentials'"
        shown = self.shell(f"echo {_STARTED}; cat {files}")
        yield _proof("credential files cannot be read", _STARTED in shown and self.token not in shown)
        shown = self.shell("env")
        yield _proof("keys in environment variables are left out", "PATH=" in shown and self.token not in shown)
        if isinstance(self.launcher, BubblewrapLauncher):
            shown = self.shell(f"cat '{home}/.npmrc'")
            is_filtered = "registry=https://npm.example.invalid" in shown and self.token not in shown
            yield _proof("~/.npmrc shows its registry without the token", is_filtered)

    def planting(self) -> Iterator[Proof]:
        self.shell("echo planted > .envrc; mkdir -p .vscode; echo planted > .vscode/tasks.json")
        gone = not any(os.path.lexists(self.folders.project / name) for name in (".envrc", ".vscode"))
        yield _proof("new files that other programs would run are removed", gone)

    def shell(self, script: str) -> str:
        return self.run(["/bin/sh", "-c", script])[0]

    def script(self, code: str, *arguments: str, grant: Grant = ORDINARY) -> dict[str, str]:
        """Output of one of our scripts, by the first word of each line; empty if it did not start."""
        shown, _launch = self.run(isolated_python(code, *arguments), grant)
        lines = [line.partition(" ") for line in shown.splitlines()]
        return {name: value for name, _space, value in lines} if lines and lines[0][0] == _STARTED else {}

    def run(
        self, arguments: Sequence[str], grant: Grant = ORDINARY, launcher: BubblewrapLauncher | None = None
    ) -> tuple[str, Launch]:
        """Run a command; returns its standard output, "" after a timeout, and the finished launch."""
        launch = (launcher or self.launcher).launch(arguments, self.folders.project, self.environ, grant)
        launch.watch_limits()
        try:
            done = run_program(
                launch.arguments,
                cwd=self.folders.project,
                environ=launch.environ,
                seconds=_SECONDS,
                pass_descriptors=launch.pass_descriptors,
            )
        except TimeoutError:
            return "", launch
        finally:
            launch.close()
        return done.output.decode(errors="replace"), launch


class _LinuxTrial(_Trial):
    """Additional tests for bubblewrap."""

    launcher: BubblewrapLauncher

    def topics(self) -> Sequence[tuple[str, Callable[[], Iterator[Proof]]]]:
        return (
            *super().topics(),
            ("isolation", self.isolation),
            ("limits", self.limits),
            ("network", self.network),
            ("clean-up", self.cleaning_up),
        )

    def planting(self) -> Iterator[Proof]:
        yield from super().planting()
        taken = [Path(item.path) for item in Quarantine(self.folders.quarantine).items()]
        names = {path.name for path in taken if path.parent == self.folders.project}
        yield _proof("removed files go to quarantine (agentcli quarantine list)", names == {".envrc", ".vscode"})
        self.shell(
            "mkdir -p docs/refs docs/objects; echo 'ref: refs/heads/main' > docs/HEAD; "
            "printf '[core]\\n\\tbare = true\\n\\tfsmonitor = touch ran\\n' > docs/config"
        )
        stays = any((self.folders.project / "docs").iterdir())
        yield _proof("new git repositories that would run programs go to quarantine", not stays)

    def isolation(self) -> Iterator[Proof]:
        found = self.script(_ISOLATION, str(Path("/proc/self/ns/pid").readlink()))
        if not found:
            yield _report_untried("commands cannot reach other processes, terminals and sockets")
            return
        yield _proof("other processes are not visible", found["own-processes"] == "True")
        if self.launcher.ability.seccomp:
            yield _proof("commands cannot type into your terminal", found["typing"] == _EPERM)
            yield _proof("commands cannot use io_uring", found["ring"] == _ENOSYS)
        else:
            reason = "system call filters do not work on this machine"
            yield Proof("", "commands cannot type into your terminal", "untried", reason)
        if self.launcher.rules.strict:
            yield _proof("Unix sockets are closed", found["unix"] == _EAFNOSUPPORT)

    def limits(self) -> Iterator[Proof]:
        wanted = self.launcher.rules.limits
        small = ResourceLimits(memory=_MAX_MEMORY_MB << 20, processes=_MAX_PROCESSES, cpu_seconds=wanted.cpu_seconds)
        limited = self.launcher.for_trial(self.folders, small)
        try:
            yield self._limit("processes", wanted.processes, ["/bin/sh", "-c", _PROCESSES], limited)
            yield self._limit("memory", wanted.memory, isolated_python(_MEMORY, str(2 * _MAX_MEMORY_MB)), limited)
        finally:
            limited.close()
        if wanted.cpu_seconds is not None:
            shown = self.shell("ulimit -St")
            yield _proof("processor time is limited", shown.strip() == str(wanted.cpu_seconds))

    def _limit(self, name: str, limit: int | None, command: Sequence[str], limited: BubblewrapLauncher) -> Proof:
        promise = f"a command with too {'many processes' if name == 'processes' else 'much memory'} is stopped"
        if limit is None:
            return Proof("", promise, "untried", "the settings set no limit")
        shown, launch = self.run(command, launcher=limited)
        if _STARTED not in shown:
            return _report_untried(promise)
        return _proof(promise, name in launch.stopped_for())

    def network(self) -> Iterator[Proof]:
        """Test the network of auto mode, whatever the settings allow in other modes."""
        promise = "in auto mode commands have no network"
        if self.launcher.uncontained:
            yield Proof("", promise, "untried", "the network cannot be blocked on this machine")
            return
        with TrialListener() as listener:
            found = self.script(_DIRECT, ADDRESS, str(listener.port), grant=Grant(network="none"))
            if not found:
                yield _report_untried(promise)
                return
            yield _proof(promise, "refused" in found and listener.connections == 0)
            if self.launcher.rules.strict:
                # The proxy is reached by a Unix socket, which strict mode blocks.
                return
            hosts = Grant(network="hosts", hosts=(ADDRESS,))
            found = self.script(_THROUGH_PROXY, str(listener.port), ADDRESS, _REFUSED_ADDRESS, grant=hosts)
            reached, refused = found.get(ADDRESS), found.get(_REFUSED_ADDRESS)
            yield _proof("with allowed hosts, a proxy blocks all others", (reached, refused) == ("200", "403"))

    def cleaning_up(self) -> Iterator[Proof]:
        self.shell('echo kept > "$TMPDIR/note"')
        shown = self.shell("cat /tmp/note")
        folder = self.launcher.temp_folder
        note = Path(self.launcher.outside("/tmp/note"))  # noqa: S108 - the sandbox's name of its own folder
        is_shared = shown.strip() == "kept" and folder is not None and note == folder / "note" and note.exists()
        yield _proof("commands and file tools share a private /tmp", is_shared)
        self.launcher.close()
        yield _proof("the private /tmp is removed at the end", folder is not None and not folder.exists())
        left = {path.name for path in self.folders.project.iterdir()}
        yield _proof("no other files are left in the project", left <= {"inside", "installed", "docs"})


def _proof(promise: str, holds: bool) -> Proof:
    return Proof("", promise, "holds" if holds else "broken")


def _report_untried(promise: str) -> Proof:
    return Proof("", promise, "untried", f"{Path(sys.executable).name} does not start in the sandbox")


ADDRESS = "127.0.0.1"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LISTENER_SECONDS = 2.0


class TrialListener:
    """Answers every connection like a web server until it is closed. Raises `OSError` if it cannot listen."""

    def __init__(self) -> None:
        self.connections = 0
        self._socket = socket.create_server((ADDRESS, 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, name="doctor listener", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(_LISTENER_SECONDS)

    def _serve(self) -> None:
        while True:
            try:
                client, _address = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with client, contextlib.suppress(OSError):
                client.settimeout(_LISTENER_SECONDS)
                client.recv(65_536)
                client.sendall(_ANSWER)
