"""Effects of a grant on one sandbox: hosts reached through a proxy, and writable paths outside."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.sandbox.plan import Upstream

if TYPE_CHECKING:
    from agentcli.sandbox.host_proxy import HostProxy

PROCESSES = {"AGENTCLI_PROCESSES": "3"}
"""Number of processes in a sandbox with a forwarder when its command leaves none running (`running_command`)."""
PORT = 39128
"""Always free, because the sandbox has its own network namespace."""

_SCRIPT = """
import os, sys, _signal, _socket, _thread
path, port, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(64)
if os.fork():
    listener.close()
    # Python ignores these, and the command would inherit that.
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    os.execv(command[0], command)
null = os.open("/dev/null", os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
keep = listener.fileno()
os.closerange(3, keep)
os.closerange(keep + 1, 4096)
def copy(source, target):
    try:
        while data := source.recv(65536):
            sent = 0
            while sent < len(data):
                sent += target.send(data[sent:])
    except OSError:
        pass
    try:
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        pass
def serve(descriptor):
    client = _socket.socket(fileno=descriptor)
    proxy = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        proxy.connect(path)
    except OSError:
        client.close()
        return
    lock = _thread.allocate_lock()
    lock.acquire()
    def back():
        copy(proxy, client)
        lock.release()
    _thread.start_new_thread(back, ())
    copy(client, proxy)
    lock.acquire()
    client.close()
    proxy.close()
while True:
    try:
        descriptor, _ = listener._accept()
    except OSError:
        continue
    _thread.start_new_thread(serve, (descriptor,))
"""


def forwarded(arguments: Sequence[str], proxy: Path) -> tuple[str, ...]:
    """The command line that starts `arguments` behind a forwarder to the proxy's socket."""
    # The base interpreter: a virtual environment's may be in a folder that commands can write.
    program = getattr(sys, "_base_executable", None) or sys.executable
    return (program, "-I", "-S", "-B", "-c", _SCRIPT, str(proxy), str(PORT), *arguments)


def proxy_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Proxy variables that point to the port, replacing any others."""
    address = f"http://127.0.0.1:{PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    local = "localhost,127.0.0.1,::1"
    # Node's fetch uses the variables only with this one set.
    found = dict.fromkeys(names, address) | {"NO_PROXY": local, "no_proxy": local, "NODE_USE_ENV_PROXY": "1"}
    return {**environ, **found}


_SOCKET_INSIDE = "/dev/agentcli-proxy"
"""Path of the proxy's socket inside the sandbox, in `/dev`, which is new in each sandbox.

In the session's temp folder an earlier command could leave a link of this name, and bubblewrap would create its target.
"""


_UNWRITTEN_TIME = 1_000_000_000
"""Modification time, in ns, set on a file created for a command, to detect whether the command has written it."""


class ProxyConnection:
    """A command's proxy connection to allowed hosts, if any. Close it when the command has ended."""

    def __init__(self, proxy: HostProxy | None = None) -> None:
        self._proxy = proxy

    @classmethod
    def through_proxy(cls, hosts: Iterable[str], folder: Path, upstream: Upstream | None) -> ProxyConnection:
        """Start a proxy for these hosts. `folder`: private to this user. Raises OSError."""
        from agentcli.sandbox.host_proxy import HostProxy

        return cls(HostProxy(folder / f"proxy-{os.urandom(6).hex()}", hosts, upstream))

    @property
    def mounts(self) -> list[str]:
        return [] if self._proxy is None else ["--bind", str(self._proxy.path), _SOCKET_INSIDE]

    def command(self, arguments: Sequence[str]) -> tuple[str, ...]:
        return tuple(arguments) if self._proxy is None else forwarded(arguments, Path(_SOCKET_INSIDE))

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        return dict(environ) if self._proxy is None else {**proxy_variables(environ), **PROCESSES}

    def refused_hosts(self) -> tuple[str, ...]:
        return () if self._proxy is None else self._proxy.refused

    def private_hosts(self) -> tuple[str, ...]:
        return () if self._proxy is None else self._proxy.private

    def close(self) -> None:
        if self._proxy is not None:
            self._proxy.close()


class WritablePaths:
    """Approved paths outside the working directories, created if needed so that they can be mounted. Close it when the
    command has ended."""

    def __init__(self, paths: Iterable[Path], closed: Sequence[Path], home: Path | None) -> None:
        """`closed`: paths that no approval makes writable, such as credentials and agentcli's own folders."""
        self._created: list[Path] = []
        self.paths = tuple(dict.fromkeys(self._mountable(paths, closed, home)))

    def _mountable(self, paths: Iterable[Path], closed: Sequence[Path], home: Path | None) -> Iterable[Path]:
        for path in paths:
            real = Path(os.path.realpath(path))
            if any(real.is_relative_to(folder) or folder.is_relative_to(real) for folder in closed):
                continue
            if real == Path("/") or (home is not None and home.is_relative_to(real)):
                # Too broad for one command: it contains start-up files of shells and programs.
                continue
            if real.exists() or self._create(real):
                yield real

    def _create(self, path: Path) -> bool:
        """Create an empty file to mount over. Its folder stays read-only, because only the file was approved."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError:
            return False
        try:
            os.utime(descriptor, ns=(_UNWRITTEN_TIME, _UNWRITTEN_TIME))
        finally:
            os.close(descriptor)
        self._created.append(path)
        return True

    def close(self) -> None:
        for path in self._created:
            with contextlib.suppress(OSError):
                status = path.lstat()
                # `touch` also leaves an empty file, but changes its time.
                if status.st_size == 0 and status.st_mtime_ns == _UNWRITTEN_TIME:
                    path.unlink()
