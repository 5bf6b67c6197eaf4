"""A server on this machine's loopback that counts who reaches it, to try out whether a sandbox has network."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

ADDRESS = "127.0.0.1"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_SECONDS = 2.0


class TrialListener:
    """Answers every connection as a web server would, until it is closed. Raises OSError where it cannot listen."""

    def __init__(self) -> None:
        self.connections = 0
        self._socket = socket.create_server((ADDRESS, 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, name="doctor listener", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(_SECONDS)

    def _serve(self) -> None:
        while True:
            try:
                client, _address = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with client, contextlib.suppress(OSError):
                client.settimeout(_SECONDS)
                client.recv(65_536)
                client.sendall(_ANSWER)
