"""Effects of a grant on one sandbox: hosts reached through a proxy, and writable paths outside."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.sandbox.network.forwarder import PROCESSES, forwarded, proxy_variables
from agentcli.sandbox.network.upstream import Upstream

if TYPE_CHECKING:
    from agentcli.sandbox.network.host_proxy import HostProxy

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
        from agentcli.sandbox.network.host_proxy import HostProxy

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
