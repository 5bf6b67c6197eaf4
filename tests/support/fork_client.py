"""Have the server of `fork_server` run a Python program, for shells and other programs that start one by its path.

    python -I -S fork_client.py ADDRESS -m agentcli …

Imports next to nothing: it starts in a tenth of the time that the program takes. The program gets this process's
standard streams, folder and environment, and this process ends as the program does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(address: str, *command: str) -> None:
    folder = os.getcwd()  # noqa: PTH109 -- pathlib would have to be imported
    fields = {"command": command, "cwd": folder, "environ": dict(os.environ), "terminal": False}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(f"\0{address}")
        socket.send_fds(server, [json.dumps(fields).encode()], [0, 1, 2])
        pid: int = json.loads(server.recv(4096))["pid"]
        for number in _FORWARDED:
            signal.signal(number, lambda received, _frame: os.kill(pid, received))
        # Its own copies would keep a pipe open that the program closes.
        os.closerange(0, 3)
        status: int = json.loads(server.recv(4096))["status"]
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
