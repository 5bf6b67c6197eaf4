"""System calls that a sandboxed command must not make."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from agentcli.sandbox.linux.probe import Ability
from agentcli.sandbox.linux.seccomp import seccomp_filter
from tests.sandbox.box import Box

pytestmark = pytest.mark.anyio

TRY = """python3 - <<'EOF'
import ctypes, errno, fcntl, os, platform, socket
def outcome(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def call(x86, arm, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    number = x86 if platform.machine() == "x86_64" else arm
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
print("unix", outcome(lambda: socket.socket(socket.AF_UNIX)))
print("inet", outcome(lambda: socket.socket(socket.AF_INET)))
print("vsock", outcome(lambda: socket.socket(40, socket.SOCK_STREAM)))
print("pair", outcome(lambda: socket.socketpair()))
print("datagrams", outcome(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)))
print("raw", outcome(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)))
print("typing", outcome(lambda: fcntl.ioctl(0, 0x5412, b"x")))
print("typing64", outcome(lambda: call(16, 29, 0, ctypes.c_ulong((1 << 32) | 0x5412), 0)))
print("keyring", outcome(lambda: call(250, 219, 0, 0, 0)))
print("ring", outcome(lambda: call(425, 425, 1, 0)))
print("trace", outcome(lambda: call(101, 117, 0, 0, 0, 0)))
EOF"""


def outcomes(text: str) -> dict[str, str]:
    return dict(line.split() for line in text.splitlines())


@pytest.fixture
def filtering(box: Box) -> Box:
    if not box.ability.seccomp:
        pytest.skip("no system call filters here")
    return box


async def test_strict_mode_closes_unix_sockets_and_ways_into_other_processes(filtering: Box) -> None:
    found = outcomes(await filtering.with_rules(strict=True, network=False).text(TRY))
    assert found == {
        "unix": "EAFNOSUPPORT",
        "inet": "done",
        "vsock": "EAFNOSUPPORT",
        "pair": "done",
        "datagrams": "EPERM",
        "raw": "EPERM",
        "typing": "EPERM",
        "typing64": "EPERM",
        "keyring": "EPERM",
        "ring": "ENOSYS",
        "trace": "EPERM",
    }


async def test_a_service_in_the_file_system_cannot_be_reached_in_strict_mode(filtering: Box) -> None:
    import socket

    place = filtering.outside / "service"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        script = (
            f'python3 -c \'import socket; socket.socket(socket.AF_UNIX).connect("{place}"); print("rea" "ched")\' 2>&1'
        )
        assert "reached" not in await filtering.with_rules(strict=True, network=False).text(f"{script}; true")
        assert "reached" in await filtering.text(script)


async def test_the_default_filter_allows_common_system_calls(filtering: Box) -> None:
    found = outcomes(await filtering.text(TRY))
    assert (found["unix"], found["pair"], found["datagrams"], found["trace"]) == ("done",) * 4
    assert (found["typing"], found["typing64"], found["keyring"]) == ("EPERM",) * 3
    assert found["ring"] == "ENOSYS"


async def test_without_network_sockets_outside_of_namespaces_are_refused_too(filtering: Box) -> None:
    found = outcomes(await filtering.with_rules(network=False).text(TRY))
    assert (found["unix"], found["vsock"]) == ("done", "EAFNOSUPPORT")


async def test_asyncio_and_threads_work_in_strict_mode(filtering: Box) -> None:
    script = "import asyncio; print(asyncio.run(asyncio.to_thread(lambda: 7)))"
    assert await filtering.with_rules(strict=True, network=False).text(f"python3 -c '{script}'") == "7"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("strict", [True, False])
def test_every_jump_stays_inside_of_the_program(machine: str, strict: bool) -> None:
    program = seccomp_filter(network=False, strict=strict, machine=machine)
    instructions = list(struct.iter_unpack("=HBBI", program))
    for place, (code, if_true, if_false, _value) in enumerate(instructions):
        if code & 7 == 5:
            assert place + 1 + max(if_true, if_false) < len(instructions)
    assert instructions[-1][0] == 6


def test_seccomp_support_is_part_of_the_cached_probe(tmp_path: Path) -> None:
    from agentcli.sandbox.linux import probe as probing

    ability = Ability("/usr/bin/bwrap", ("--cap-drop", "ALL"), network=True, seccomp=True)
    probing._remember(tmp_path, "key", ability)
    assert probing._recall(tmp_path, "key") == ability
