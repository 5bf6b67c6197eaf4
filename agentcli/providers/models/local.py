"""Find local model servers and list their models.

Connects only to 127.0.0.1, on the default ports of known programs, and only when called. One small request each, in
parallel, without a proxy and without a library. Answers are untrusted: only a limited amount is read, and only model
names are used.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line

HOST = "127.0.0.1"
SECONDS = 0.15
"""Timeout for each server. A running one answers in a few milliseconds."""
_MOST_BYTES = 512 * 1024
_MOST_MODELS = 200
_LONGEST_NAME = 200
_SPEAKS_SECONDS = 5.0
_NO_SUCH_ROUTE = (404, 405, 501)


@frozen
class Program:
    name: str
    port: int


PROGRAMS: tuple[Program, ...] = (
    Program("Ollama", 11434),
    Program("LM Studio", 1234),
    Program("llama.cpp", 8080),
    Program("vLLM", 8000),
)


@frozen
class LocalServer:
    name: str
    base_url: str
    models: tuple[str, ...]
    """Model names as the server spells them; printable, without control characters."""

    @property
    def host(self) -> str:
        return self.base_url.removeprefix("http://")


async def find_local_servers(
    programs: Sequence[Program] = PROGRAMS, seconds: float = SECONDS
) -> tuple[LocalServer, ...]:
    """The servers that answer with a list of models, in the order of `programs`. Never raises."""
    found = await asyncio.gather(*(_ask(program, seconds) for program in programs))
    return tuple(server for server in found if server is not None)


async def speaks_messages(server: LocalServer, seconds: float = _SPEAKS_SECONDS) -> bool | None:
    """Whether the server has the Messages API: an empty request is refused, but not as unknown. None: no answer."""
    port = int(server.base_url.rpartition(":")[2])
    head = f"POST /v1/messages HTTP/1.0\r\nHost: {server.host}\r\nContent-Type: application/json\r\nContent-Length: 2"
    answer = await _answer(port, f"{head}\r\nConnection: close\r\n\r\n{{}}", seconds)
    return None if answer is None else answer[0] not in _NO_SUCH_ROUTE


async def _ask(program: Program, seconds: float) -> LocalServer | None:
    # HTTP/1.0: the body ends with the connection.
    head = f"GET /v1/models HTTP/1.0\r\nHost: {HOST}:{program.port}\r\nAccept: application/json\r\nConnection: close"
    answer = await _answer(program.port, f"{head}\r\n\r\n", seconds)
    if answer is None or answer[0] != 200:
        return None
    models = _names(answer[1])
    return LocalServer(program.name, f"http://{HOST}:{program.port}", models) if models else None


async def _answer(port: int, request: str, seconds: float) -> tuple[int, bytes] | None:
    """Status and body; None without an HTTP answer in time."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(request.encode("ascii"))
                await writer.drain()
                head = await reader.readuntil(b"\r\n\r\n")
                body = await _up_to(reader, _length(head))
            finally:
                # Close without waiting: the server may be slow.
                writer.transport.abort()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not re.fullmatch(rb"[1-5]\d\d", words[1]):
        return None
    return int(words[1]), _unchunked(body) if b"transfer-encoding: chunked" in head.lower() else body


def _length(head: bytes) -> int:
    """How many bytes of the body to read: up to its declared end, else until the connection closes."""
    for line in head.split(b"\r\n"):
        name, _colon, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return min(int(value), _MOST_BYTES)
    return _MOST_BYTES


async def _up_to(reader: asyncio.StreamReader, limit: int) -> bytes:
    pieces, size = [], 0
    while size < limit and (piece := await reader.read(limit - size)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _unchunked(body: bytes) -> bytes:
    """Decode a chunked body; some servers send one even for HTTP/1.0."""
    pieces, place = [], 0
    with suppress(ValueError):
        while (end := body.find(b"\r\n", place)) >= 0:
            count = int(body[place:end].partition(b";")[0], 16)
            if count <= 0:
                break
            pieces.append(body[end + 2 : end + 2 + count])
            place = end + 2 + count + 2
    return b"".join(pieces)


def _names(body: bytes) -> tuple[str, ...]:
    """Model names in a list such as `{"data": [{"id": "…"}]}`."""
    try:
        answer: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    rows = answer.get("data") if isinstance(answer, dict) else None
    names = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    usable = (name for name in names if isinstance(name, str) and _is_name(name))
    return tuple(dict.fromkeys(usable))[:_MOST_MODELS]


def _is_name(name: str) -> bool:
    return bool(name) and len(name) <= _LONGEST_NAME and name == plain_line(name) and name.isprintable()
