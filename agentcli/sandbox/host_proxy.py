"""An HTTP proxy on a Unix socket that connects sandboxed commands to allowed hosts only.

A command without network reaches it through a forwarder, which listens inside the sandbox. Names are resolved here and
connected to by address, so that the checked address is the one that is reached; private and loopback addresses are
refused unless the host itself was named as such. It sees host names, not content: TLS is passed through unopened, so a
server of many names (a CDN) counts as one host. Runs in its own threads, so that the event loop and downloads do not
slow each other down.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentcli.core.addresses import is_private_address, is_private_host, parse_web_address
from agentcli.sandbox.plan import Upstream

_MAX_CONNECTIONS = 64
_MAX_HEAD = 32 * 1024
_MAX_REFUSED = 50
_CONNECT_SECONDS = 20.0
_IDLE_SECONDS = 300.0
_CHUNK = 64 * 1024
_JOIN_SECONDS = 2.0
_HOP_BY_HOP = ("proxy-", "connection:", "keep-alive:")


def host_matches(host: str, patterns: Iterable[str]) -> bool:
    """Match exact names, and `*.example.org` for every name below it. A pattern after `!` excludes what it matches."""
    name = host.lower().rstrip(".")
    matching = [text for text in patterns if _matches(name, text.removeprefix("!").lower().rstrip("."))]
    return bool(matching) and not any(text.startswith("!") for text in matching)


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or (pattern.startswith("*.") and name.endswith(pattern[1:]) and len(name) >= len(pattern))


class HostProxy:
    """Serves until `close`. `refused` lists the requested hosts that were not allowed, in order."""

    def __init__(
        self,
        path: Path,
        hosts: Iterable[str],
        upstream: Upstream | None = None,
        resolve: Callable[[str, int], list[str]] | None = None,
    ) -> None:
        """`path`: of the socket to create, in a folder that only this user can enter. Raises OSError."""
        self._hosts = tuple(hosts)
        self._upstream = upstream
        self._resolve = resolve or _addresses
        self._refused: dict[str, None] = {}
        self._private: dict[str, None] = {}
        self._closed = threading.Event()
        self._slots = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(self._listener, path)
            self._listener.listen(_MAX_CONNECTIONS)
        except OSError:
            self._listener.close()
            raise
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._accepting = threading.Thread(target=self._accept, name="sandbox proxy", daemon=True)
        self._accepting.start()

    @property
    def private(self) -> tuple[str, ...]:
        """Allowed hosts that were refused because they have only private addresses."""
        return tuple(self._private)

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(self._refused)

    def close(self) -> None:
        """End every connection. Safe to call twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        deadline = time.monotonic() + _JOIN_SECONDS
        self._accepting.join(_JOIN_SECONDS)
        for client in self._threads.values():
            # Wakes the thread, which then closes its side too.
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                _answer(client, "503 Too many connections")
                client.close()
                continue
            thread = threading.Thread(target=self._serve, args=(client,), name="sandbox proxy", daemon=True)
            self._threads = {known: other for known, other in self._threads.items() if known.is_alive()}
            self._threads[thread] = client
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                client.settimeout(_CONNECT_SECONDS)
                with contextlib.suppress(OSError, ValueError):
                    self._handle(client)
        finally:
            self._slots.release()

    def _handle(self, client: socket.socket) -> None:
        head, rest = _read_head(client)
        line, *fields = head.split("\r\n")
        method, target, _version = line.split(" ", 2)
        host, port, path = _destination(method, target)
        if not host:
            _answer(client, "400 Only absolute addresses are proxied")
            return
        if not host_matches(host, self._hosts):
            if len(self._refused) < _MAX_REFUSED:
                self._refused[host] = None
            _answer(client, f"403 {host} is not an allowed host of this sandbox")
            return
        server = self._connect(client, host, port)
        if server is None:
            return
        with server:
            if method == "CONNECT":
                if rest == b"":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    self._pump(client, server)
                return
            kept = [text for text in fields if text and not text.lower().startswith(_HOP_BY_HOP)]
            lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
            server.sendall("\r\n".join(lines).encode("latin-1") + rest)
            self._pump(client, server)

    def _connect(self, client: socket.socket, host: str, port: int) -> socket.socket | None:
        try:
            if self._upstream is not None:
                return _through(self._upstream, host, port)
            addresses = self._resolve(host, port)
        except OSError as error:
            _answer(client, f"502 {host}: {error.strerror or error}")
            return None
        if not is_private_host(host):
            # A public name that resolves into a private network is an attempt to get there.
            addresses = [text for text in addresses if not is_private_address(ipaddress.ip_address(text))]
            if not addresses and len(self._private) < _MAX_REFUSED:
                self._private[host] = None
        for address in addresses:
            with contextlib.suppress(OSError):
                return socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
        _answer(client, f"502 {host} cannot be reached" if addresses else f"403 {host} leads to a private address")
        return None

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        """Copy data both ways until both sides have ended, one fails, or the connection is idle too long."""
        client.settimeout(_IDLE_SECONDS)
        server.settimeout(_IDLE_SECONDS)
        other = {client: server, server: client}
        while other and not self._closed.is_set():
            ready, _, _ = select.select(list(other), [], [], _IDLE_SECONDS)
            if not ready:
                return
            for source in ready:
                data = source.recv(_CHUNK)
                if data:
                    other[source].sendall(data)
                else:
                    with contextlib.suppress(OSError):
                        other[source].shutdown(socket.SHUT_WR)
                    del other[source]

    # ---------------------------------------------------------------------------------------------- inside the sandbox

    @property
    def mounts(self) -> tuple[str, ...]:
        """Arguments that show its socket in the sandbox."""
        return ("--bind", str(self.path), _SOCKET_INSIDE)


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind through the folder's descriptor, because a socket's path has at most 107 bytes."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
    finally:
        os.close(descriptor)


def _read_head(client: socket.socket) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > _MAX_HEAD:
            raise ValueError("the head is too long")
        piece = client.recv(_CHUNK)
        if not piece:
            raise ValueError("the connection ended early")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def _destination(method: str, target: str) -> tuple[str, int, str]:
    """Host, port and path of a request; an empty host if it is not a proxy request."""
    address = parse_web_address(f"https://{target}/" if method == "CONNECT" else target)
    if isinstance(address, str) or (method == "CONNECT" and address.target != "/"):
        return "", 0, ""
    if method != "CONNECT" and address.scheme != "http":
        return "", 0, ""
    return address.host, address.port, address.target


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


def _through(upstream: Upstream, host: str, port: int) -> socket.socket:
    """Open a tunnel through the machine's own proxy. Raises OSError."""
    server = socket.create_connection((upstream.host, upstream.port), timeout=_CONNECT_SECONDS)
    try:
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}"]
        if upstream.authorization:
            lines.append(f"Proxy-Authorization: {upstream.authorization}")
        server.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        head, rest = _read_head(server)
        if rest or head.split(" ", 2)[1:2] != ["200"]:
            raise OSError(f"the proxy {upstream.host} refused the connection")
    except (OSError, ValueError) as error:
        server.close()
        raise error if isinstance(error, OSError) else OSError(str(error)) from error
    return server


def _answer(client: socket.socket, status: str) -> None:
    body = f"agentcli sandbox: {status[4:]}\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        client.sendall((head + body).encode("ascii", "replace"))


# ------------------------------------------------------------------------------------------------- the forwarder

_SOCKET_INSIDE = "/dev/agentcli-proxy"
"""Path of the proxy's socket inside the sandbox, in `/dev`, which is new in each sandbox.

In the session's temp folder an earlier command could leave a link of this name, and bubblewrap would create its target.
"""

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


def forwarded(arguments: Sequence[str], proxy: Path = Path(_SOCKET_INSIDE)) -> tuple[str, ...]:
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
    return {**environ, **found, **PROCESSES}
