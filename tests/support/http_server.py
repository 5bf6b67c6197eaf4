"""What the HTTP servers of the tests have in common: connections on 127.0.0.1, and requests as they arrive."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from agentcli.core.aio import cancel_and_wait


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


class HttpServer:
    """A subclass serves one connection with `serve`; it may raise ConnectionError when that is done."""

    scheme = "http"
    tls: ssl.SSLContext | None = None
    port: int
    _server: asyncio.Server

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.vanish()

    async def listen(self, port: int = 0) -> None:
        self._connections: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, ssl=self.tls, limit=64 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def vanish(self) -> None:
        """Stop listening and close all connections."""
        self._server.close()
        await cancel_and_wait(set(self._connections))
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fixture: connection")
        self._connections.add(task)
        try:
            await self.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError, ssl.SSLError):
                await writer.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Raises `IncompleteReadError` at the end of the connection."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    method, target, _version = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def head(status: int, **headers: str) -> bytes:
    """The first line and the headers of an answer."""
    lines = [f"HTTP/1.1 {status} Status", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
