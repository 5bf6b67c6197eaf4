"""Forward a port on the sandbox's loopback interface to the socket of the proxy outside.

Runs inside the sandbox as the first process: it starts listening, forks a child that copies bytes, and then execs the
command, so that exit code and signals are the command's own. The script imports only built-in modules, which keeps its
start at 10 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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
