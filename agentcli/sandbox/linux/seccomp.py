"""Seccomp filters for bubblewrap: system calls that a sandboxed command cannot make. Assembles bytes, runs nothing.

| refused                                 | on | no network | strict | why                                           |
|-----------------------------------------|----|------------|--------|-----------------------------------------------|
| ioctl TIOCSTI, TIOCLINUX                | x  | x          | x      | types into a terminal                         |
| keyctl, add_key, request_key            | x  | x          | x      | keyrings are outside of namespaces            |
| io_uring                                | x  | x          | x      | makes calls that no filter sees               |
| modes with the set-user-id bit, openat2 | x  | x          | x      | the file would act for the user later         |
| sockets other than Unix, IP and netlink |    | x          | x      | vsock, Bluetooth … have no namespace          |
| Unix sockets                            |    |            | x      | services in the file system act for clients   |
| ptrace, bpf, userfaultfd, perf …        |    |            | x      | ways into the kernel and into other processes |
| programs for another architecture       |    |            | x      | their socketcall cannot be filtered           |

Socket pairs are allowed because node and asyncio need them, but only stream types: a datagram pair can be connected to
a path later. Numbers are compared as the kernel reads them, in 32 bits.
"""

from __future__ import annotations

import errno
import functools
import os
import struct

from agentcli.core.frozen import frozen

_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK, _STREAM, _SEQPACKET = 1, 2, 10, 16, 1, 5
_X32 = 0x40000000
_UNFILTERED = (425, 426, 427, 437)
"""Calls that pass their arguments in memory, which no filter sees: io_uring, and openat2, which programs do without."""
_SET_USER_ID = 0o4000
_FCHMODAT2 = (452, _THIRD)


@frozen(kw_only=True)
class _Numbers:
    audit: int
    ioctl: int
    socket: int
    socketpair: int
    keys: tuple[int, ...]
    risky: tuple[int, ...]
    """Numbers of ptrace, process_vm_readv and _writev, bpf, userfaultfd, perf_event_open, kcmp."""
    modes: tuple[tuple[int, int], ...]
    """Calls that set a file's mode, each with the offset of that argument: chmod, fchmod, fchmodat, open, creat,
    openat, mknod, mknodat."""
    other_audit: int
    """Audit number of the 32-bit architecture that the same kernel also runs."""
    other_ioctl: int
    other_keys: tuple[int, ...]
    other_modes: tuple[tuple[int, int], ...]


_MACHINES = {
    "x86_64": _Numbers(
        audit=0xC000003E,
        ioctl=16,
        socket=41,
        socketpair=53,
        keys=(248, 249, 250),
        risky=(101, 310, 311, 321, 323, 298, 312),
        modes=(
            *((90, _SECOND), (91, _SECOND), (268, _THIRD), (2, _THIRD), (85, _SECOND), (257, _FOURTH)),
            *((133, _SECOND), (259, _THIRD), _FCHMODAT2),
        ),
        other_audit=0x40000003,
        other_ioctl=54,
        other_keys=(286, 287, 288),
        other_modes=(
            *((15, _SECOND), (94, _SECOND), (306, _THIRD), (5, _THIRD), (8, _SECOND), (295, _FOURTH)),
            *((14, _SECOND), (297, _THIRD), _FCHMODAT2),
        ),
    ),
    "aarch64": _Numbers(
        audit=0xC00000B7,
        ioctl=29,
        socket=198,
        socketpair=199,
        keys=(217, 218, 219),
        risky=(117, 270, 271, 280, 282, 241, 272),
        modes=((52, _SECOND), (53, _THIRD), (56, _FOURTH), (33, _THIRD), _FCHMODAT2),
        other_audit=0x40000028,
        other_ioctl=54,
        other_keys=(309, 310, 311),
        other_modes=(
            *((15, _SECOND), (94, _SECOND), (333, _THIRD), (5, _THIRD), (8, _SECOND), (322, _FOURTH)),
            *((14, _SECOND), (324, _THIRD), _FCHMODAT2),
        ),
    ),
}


def is_supported() -> bool:
    return os.uname().machine in _MACHINES


@functools.lru_cache(maxsize=8)
def seccomp_filter(*, network: bool, strict: bool, machine: str | None = None) -> bytes:
    """A filter for `bwrap --seccomp`. Raises KeyError for an unknown machine."""
    numbers = _MACHINES[machine or os.uname().machine]
    native = [
        *_refuse_above(_X32 - 1, errno.ENOSYS),
        *_refuse_calls(_UNFILTERED, errno.ENOSYS),
        *_refuse_calls((*numbers.keys, *(numbers.risky if strict else ())), errno.EPERM),
        *_on_call(numbers.ioctl, _refuse_values(_SECOND, (_TIOCSTI, _TIOCLINUX), errno.EPERM)),
        *_refuse_set_user_id(numbers.modes),
    ]
    if strict or not network:
        allowed = (_INET, _INET6, _NETLINK) if strict else (_UNIX, _INET, _INET6, _NETLINK)
        native += _on_call(numbers.socket, _only_values(_FIRST, allowed, errno.EAFNOSUPPORT))
    if strict:
        native += _on_call(numbers.socketpair, _only_values(_SECOND, (_STREAM, _SEQPACKET), errno.EPERM, mask=0xF))
    native.append(_instruction(_RETURN, _ALLOW))
    if strict:
        other = [_instruction(_RETURN, _ERRNO | errno.ENOSYS)]
    else:
        other = [
            *_refuse_calls(_UNFILTERED, errno.ENOSYS),
            *_refuse_calls(numbers.other_keys, errno.EPERM),
            *_on_call(numbers.other_ioctl, _refuse_values(_SECOND, (_TIOCSTI, _TIOCLINUX), errno.EPERM)),
            *_refuse_set_user_id(numbers.other_modes),
            _instruction(_RETURN, _ALLOW),
        ]
    return b"".join(
        [
            _instruction(_LOAD, _ARCHITECTURE),
            _instruction(_JUMP_EQUAL, numbers.audit, 0, len(native) + 1),
            _instruction(_LOAD, _NUMBER),
            *native,
            _instruction(_JUMP_EQUAL, numbers.other_audit, 1, 0),
            _instruction(_RETURN, _ERRNO | errno.ENOSYS),
            _instruction(_LOAD, _NUMBER),
            *other,
        ]
    )


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse_above(number: int, error: int) -> list[bytes]:
    return [_instruction(_JUMP_GREATER, number + 1, 0, 1), _instruction(_RETURN, _ERRNO | error)]


def _refuse_calls(calls: tuple[int, ...], error: int) -> list[bytes]:
    """Refuse calls. Expects the call number to be loaded, and leaves it loaded."""
    return [
        word
        for call in calls
        for word in (_instruction(_JUMP_EQUAL, call, 0, 1), _instruction(_RETURN, _ERRNO | error))
    ]


def _on_call(call: int, body: list[bytes]) -> list[bytes]:
    """Apply `body` to one call. It may load something else, so the call number is loaded again after it."""
    body = [*body, _instruction(_LOAD, _NUMBER)]
    return [_instruction(_JUMP_EQUAL, call, 0, len(body)), *body]


def _refuse_set_user_id(calls: tuple[tuple[int, int], ...]) -> list[bytes]:
    return [
        word
        for call, offset in calls
        for word in _on_call(call, _only_values(offset, (0,), errno.EPERM, mask=_SET_USER_ID))
    ]


def _refuse_values(offset: int, values: tuple[int, ...], error: int) -> list[bytes]:
    return [_instruction(_LOAD, offset), *_refuse_calls(values, error)]


def _only_values(offset: int, values: tuple[int, ...], error: int, mask: int = 0) -> list[bytes]:
    checks = [_instruction(_JUMP_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    loaded = [_instruction(_LOAD, offset), *([_instruction(_AND, mask)] if mask else [])]
    return [*loaded, *checks, _instruction(_RETURN, _ERRNO | error)]
