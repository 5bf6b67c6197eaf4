"""A model that answers at once, in a process of its own: replies are bytes made beforehand, arrivals are noted.

Standard library only, and nothing is parsed but the request's length: what this process does between two requests
counts as the program's time. Times are `time.monotonic()`, which on one machine is the same for all processes.

    PUT /script    [[[seconds to wait, text to send, event?], ...one list a reply...], ...]; forgets what was noted
    PUT /aside     [text, reply]: requests that end with this text get this reply, none of the script
    GET /records   [[kind, number of the request, segment, time], ...]; kind is request, sent or closed

Where a reply has `TOKENS`, a fourth of the request's bytes is sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_BROKE = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"

TOKENS = 424_242_424
_TOKENS = b"%d" % TOKENS
_LAST_BYTES = 8_000
"""How far from the end of a request the text of an aside is looked for."""

Record = tuple[str, int, int, float]


class Stage:
    """What is played and what has been noted, shared by all connections."""

    def __init__(self) -> None:
        self.replies: list[list[tuple[float, bytes]]] = []
        self.records: list[Record] = []
        self.requests = 0
        self.aside: tuple[bytes, list[tuple[float, bytes]]] | None = None

    def load(self, script: list[list[list[Any]]]) -> None:
        self.replies = [_segments(reply) for reply in script]
        self.records.clear()
        self.requests = 0
        self.aside = None

    def note(self, kind: str, number: int, segment: int = 0) -> None:
        self.records.append((kind, number, segment, time.monotonic()))


def _segments(reply: list[list[Any]]) -> list[tuple[float, bytes]]:
    return [(float(wait), str(text).encode()) for wait, text in reply]


class Connection(asyncio.Protocol):
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._buffer = bytearray()
        self._needed = 0
        self._playing = 0
        self._tokens = b"0"
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._playing:
            self._stage.note("closed", self._playing)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._needed:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._needed = end + 4 + _content_length(bytes(self._buffer[:end]))
        if len(self._buffer) >= self._needed:
            request = bytes(self._buffer[: self._needed])
            del self._buffer[: self._needed]
            self._needed = 0
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        stage = self._stage
        assert self._transport is not None
        if request.startswith(b"PUT /script"):
            stage.load(json.loads(request.partition(b"\r\n\r\n")[2]))
            self._send_json({})
        elif request.startswith(b"PUT /aside"):
            text, reply = json.loads(request.partition(b"\r\n\r\n")[2])
            stage.aside = (str(text).encode(), _segments(reply))
            self._send_json({})
        elif request.startswith(b"GET /records"):
            self._send_json(stage.records)
        elif stage.aside is not None and stage.aside[0] in request[-_LAST_BYTES:]:
            data = b"".join(text for _wait, text in stage.aside[1]).replace(_TOKENS, b"%d" % (len(request) // 4))
            self._transport.write(_HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
        else:
            stage.requests += 1
            stage.note("request", stage.requests)
            if stage.requests > len(stage.replies):
                self._transport.write(_BROKE)
                return
            self._playing = stage.requests
            self._tokens = b"%d" % (len(request) // 4)
            self._play(stage.requests, 0, _HEAD)

    def _play(self, number: int, segment: int, before: bytes = b"") -> None:
        """Send what is due now, then come back when the next segment is."""
        assert self._transport is not None
        reply = self._stage.replies[number - 1]
        if before and reply and reply[0][0] > 0:
            self._transport.write(before)
            before = b""
            self._timer = asyncio.get_running_loop().call_later(reply[0][0], self._play, number, 0)
            return
        data = reply[segment][1].replace(_TOKENS, self._tokens)
        last = segment == len(reply) - 1
        self._transport.write(before + b"%x\r\n%b\r\n" % (len(data), data) + (b"0\r\n\r\n" if last else b""))
        self._stage.note("sent", number, segment)
        if last:
            self._playing = 0
            return
        self._timer = asyncio.get_running_loop().call_later(reply[segment + 1][0], self._play, number, segment + 1)

    def _send_json(self, data: Any) -> None:
        assert self._transport is not None
        body = json.dumps(data).encode()
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _colon, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _serve() -> None:
    stage = Stage()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(stage), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # Whoever started this process holds the other end of its standard input: when that goes, so does this.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
