"""Network sockets of this process, for the check that a test leaves none open.

They are looked for in /proc, and only if one was made since the last look: most tests make none, and looking before
and after each of 8,000 tests took seconds.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from typing import Any

# ruff: noqa: PTH208 -- pathlib is slow

_NETWORK = (socket.AF_INET, socket.AF_INET6)
_make = socket.socket.__init__


class _Looks:
    """How many sockets were made, how many of them before the last look, and what that one found."""

    made = 0
    made_before = -1
    found: frozenset[str] = frozenset()


def install() -> None:
    def make(self: socket.socket, *args: Any, **kwargs: Any) -> None:
        _make(self, *args, **kwargs)
        if self.family in _NETWORK:
            _Looks.made += 1

    socket.socket.__init__ = make  # type: ignore[method-assign]


def known() -> frozenset[str]:
    """Every socket that is open, perhaps some that were."""
    if _Looks.made != _Looks.made_before:
        _Looks.made_before = _Looks.made
        _Looks.found = frozenset(_sockets())
    return _Looks.found


def opened_since(before: frozenset[str]) -> list[str]:
    """Network sockets only: event loops keep a pair of local ones for themselves."""
    if _Looks.made == _Looks.made_before:
        return []
    return [shown for name, shown in _sockets().items() if name not in before]


def _sockets() -> dict[str, str]:
    """Open network sockets and their addresses, by the socket's name."""
    found: dict[str, str] = {}
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for number in map(int, numbers):
        try:
            status = os.fstat(number)
            if not stat.S_ISSOCK(status.st_mode):
                continue
            # Of the base class: these are not counted.
            with closing(socket.SocketType(fileno=os.dup(number))) as copy:
                if copy.family in _NETWORK:
                    name = f"socket {status.st_ino}"
                    found[name] = f"open connection {name} {copy.getsockname()}"
        except OSError:
            continue  # the descriptor of the listing itself, or one that was closed meanwhile
    return found
