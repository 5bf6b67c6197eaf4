"""The process that pytest-xdist starts as a worker: it has the worker forked from a Python that collected all tests.

    python worker_stand_in.py ADDRESS -u -c CODE    (started by execnet; see tests/support/forked_workers.py)

It hands its standard streams over and ends when the worker does. Where nothing answers at ADDRESS it becomes the Python
that xdist would have started, which collects the tests itself.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main() -> None:
    address, *arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        try:
            server.connect(f"\0{address}")
            socket.send_fds(server, [json.dumps({"command": arguments[-2:]}).encode()], [0, 1, 2])
            started = server.recv(4096)
        except OSError:
            started = b""
        if not started:
            os.execv(sys.executable, [sys.executable, *arguments])
        # The other ends have to see it when the worker closes them.
        os.close(0)
        os.close(1)
        ended = server.recv(4096)
    status = json.loads(ended)["status"] if ended else 1
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main()
