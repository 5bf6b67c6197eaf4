"""A loopback HTTP server that answers each path as configured, for everything but the Messages API."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from agentcli.core.aio import cancel_and_wait


class Listener:
    """`answers` by path without its query: status and body, or None to say nothing at all. Else 404."""

    def __init__(self, **answers: tuple[int, bytes] | None) -> None:
        self.answers: dict[str, tuple[int, bytes] | None] = {}
        for name, answer in answers.items():
            self.answers[f"/v1/{name.replace('__', '/')}"] = answer
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        """Method, path with its query, headers by lower-case name."""
        self.raw = b""
        """In place of an answer, when not empty."""
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        await cancel_and_wait(set(self._open))
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fixture: listener connection")
        self._open.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        method, path, _version = first.split()
        headers = {name.lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
        await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((method, path, headers))
        if self.raw:
            writer.write(self.raw)
            await writer.drain()
            return
        answer = self.answers.get(path.partition("?")[0], (404, b'{"error": "not found"}'))
        if answer is None:
            await reader.read()
            return
        status, body = answer
        length = f"Content-Length: {len(body)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode() + body)
        await writer.drain()
