"""A command of the running app cannot type into its terminal, write to it, or leave the sandbox through the kernel."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.support.scripts import call, reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

ATTACK = r"""
import ctypes, errno, fcntl, glob, os, socket, sys, termios

def attempt(name, work):
    try:
        work()
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, error))
    else:
        print(name, "done")

if os.readlink("/proc/self/ns/pid") == sys.argv[2]:
    sys.exit("outside of a sandbox this would write to all terminals")
libc = ctypes.CDLL(None, use_errno=True)

def ring():
    if libc.syscall(425, 1, ctypes.create_string_buffer(256)) < 0:
        raise OSError(ctypes.get_errno(), "")

def reach(kind):
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.connect(sys.argv[1].replace("@", "\0", 1))

for path in ["/dev/tty", "/dev/console", *glob.glob("/dev/pts/[0-9]*"), *glob.glob("/proc/*/fd/*")]:
    try:
        terminal = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        continue
    if os.isatty(terminal):
        print("terminal", path)
        os.write(terminal, b"\x1b]0;OWNED\x07OWNED")
attempt("typing", lambda: fcntl.ioctl(os.openpty()[1], termios.TIOCSTI, b"x"))
attempt("stdin", lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"))
attempt("ring", ring)
attempt("abstract", lambda: reach(socket.SOCK_STREAM))
"""


@pytest.mark.parametrize(
    ("arguments", "abstract"),
    [
        (["--sandbox", "on", "--allowedTools", "Bash(python3 attack.py *),Edit(found.txt)"], "done"),
        (["--sandbox", "on", "--permission-mode", "auto"], "ECONNREFUSED"),
        (["--sandbox", "strict", "--allowedTools", "Bash(python3 attack.py *),Edit(found.txt)"], "EAFNOSUPPORT"),
    ],
    ids=["default", "auto", "strict"],
)
async def test_a_command_reaches_neither_the_terminal_nor_the_kernel_s_back_doors(
    tmp_path: Path, arguments: list[str], abstract: str
) -> None:
    ability = probe(os.environ, (), None)
    if not ability.works or not ability.seccomp:
        pytest.skip(f"no sandbox with system call filters here: {ability.problem}")
    address = f"@agentcli-test-{os.getpid()}"
    own = Path("/proc/self/ns/pid").readlink()
    attack = call("Bash", command=f"python3 attack.py {address} '{own}' > found.txt", description="Attack")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address.replace("@", "\0"))
        server.listen()
        async with app_with(tmp_path, reply(attack), reply("all done"), arguments=arguments) as (app, _server):
            (app.work / "attack.py").write_text(ATTACK, encoding="utf-8")
            await app.ready()
            await app.submit("go")
            await app.wait_for("all done")
            assert "OWNED" not in app.text
            assert await app.leave() == 0
    found = (app.work / "found.txt").read_text(encoding="utf-8").splitlines()
    assert found == ["typing EPERM", "stdin EPERM", "ring ENOSYS", f"abstract {abstract}"]
