"""Parse HTTP/1.1 responses (RFC 9112) as they arrive. Pure: bytes in, heads and bodies out.

Whatever leaves open where a response ends is an error, since the next one would be read from the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from agentcli.core.frozen import frozen

MAX_HEAD_BYTES = 100 * 1024
MAX_LINE_BYTES = 8 * 1024
"""Of a line between chunks."""
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\x00\r\n]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_LENGTH = re.compile(r"[0-9]{1,18}")


_State = Literal["length", "until-close", "size", "chunk", "chunk-end", "trailer", "done"]


class BrokenResponse(OSError):
    """A response that is not HTTP, or that ended before its end."""


@frozen
class ResponseHead:
    status: int
    headers: dict[str, str]
    """By lower-case name; values of repeated headers are joined with commas."""


class ResponseParser:
    """One response: first `head`, then `body` until it is empty. A result of None means: `feed` more bytes first."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_closed = False
        self._state: _State = "length"
        self._left = 0
        """Bytes of the body or of the current chunk that are still to come."""
        self._piece = b""
        self._trailer_bytes = 0
        self._keeps_connection = False

    @property
    def can_continue(self) -> bool:
        """Whether the connection can be used for another request."""
        return self._state == "done" and self._keeps_connection and not self._buffer

    def feed(self, data: bytes) -> None:
        """`data`: what arrived; nothing if the connection has ended."""
        self._buffer += data
        self._is_closed = self._is_closed or not data

    def head(self) -> ResponseHead | None:
        while (end := _HEAD_END.search(self._buffer)) is not None and end.start() <= MAX_HEAD_BYTES:
            lines = re.split(rb"\r?\n", bytes(self._buffer[: end.start()]))
            del self._buffer[: end.end()]
            status = _STATUS.fullmatch(lines[0])
            if status is None or status[2] == b"101":
                raise BrokenResponse("The server does not answer in HTTP/1.1")
            if not status[2].startswith(b"1"):  # else the response follows
                head = ResponseHead(int(status[2]), _headers(lines[1:]))
                self._choose_framing(head, keeps=status[1] == b"1")
                return head
        if len(self._buffer) > MAX_HEAD_BYTES:
            raise BrokenResponse("The head of the response is too long")
        if self._is_closed:
            raise BrokenResponse("The server closed the connection without a response")
        return None

    def body(self) -> bytes | None:
        """The next piece of the body, of at most one chunk; empty at its end."""
        self._piece = b""
        while not self._piece and self._state != "done" and self._advance():
            pass
        if self._piece:
            return self._piece
        if self._state == "done":
            return b""
        if self._is_closed:
            raise BrokenResponse("The connection closed before the end of the response")
        return None

    def _choose_framing(self, head: ResponseHead, *, keeps: bool) -> None:
        coding, length = head.headers.get("transfer-encoding"), head.headers.get("content-length")
        options = {option.strip() for option in head.headers.get("connection", "").lower().split(",")}
        self._keeps_connection = keeps and "close" not in options
        if head.status in (204, 304):
            self._state = "done"
        elif coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise BrokenResponse("The response does not say clearly where it ends")
            self._state = "size"
        elif length is not None:
            lengths = {text.strip() for text in length.split(",")}
            if len(lengths) != 1 or not _LENGTH.fullmatch(text := lengths.pop()):
                raise BrokenResponse("The response has no valid length")
            self._left = int(text)
            self._state = "length" if self._left else "done"
        else:
            self._state, self._keeps_connection = "until-close", False

    def _advance(self) -> bool:
        """Take the next part from the buffer. False if it has not arrived yet."""
        match self._state:
            case "until-close":
                self._piece = self._take(len(self._buffer))
                if self._is_closed:
                    self._state = "done"
                return False
            case "length" | "chunk":
                self._piece = self._take(self._left)
                self._left -= len(self._piece)
                if not self._left:
                    self._state = "done" if self._state == "length" else "chunk-end"
                return not self._left
        line = self._line()
        if line is None:
            return False
        match self._state:
            case "size":
                size = _CHUNK_SIZE.fullmatch(line)
                if size is None:
                    raise BrokenResponse("The response has an invalid chunk")
                self._left = int(size[1], 16)
                self._state = "chunk" if self._left else "trailer"
            case "chunk-end":
                if line:
                    raise BrokenResponse("The response has a chunk of another length than announced")
                self._state = "size"
            case _:
                self._trailer_bytes += len(line)
                if self._trailer_bytes > MAX_HEAD_BYTES:
                    raise BrokenResponse("The end of the response is too long")
                self._state = "trailer" if line else "done"
        return True

    def _take(self, count: int) -> bytes:
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        return piece

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n", 0, MAX_LINE_BYTES)
        if end >= 0:
            return self._take(end + 1)[:-1].removesuffix(b"\r")
        if len(self._buffer) >= MAX_LINE_BYTES:
            raise BrokenResponse("The response has a line that is too long")
        return None


def _headers(lines: Sequence[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BrokenResponse("The response has an invalid header")
        name, text = header[1].decode("ascii").lower(), header[2].decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found
