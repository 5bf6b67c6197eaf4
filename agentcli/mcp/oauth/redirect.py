"""The listener on 127.0.0.1 to which the browser is redirected after a sign-in.

It accepts one answer and shows a fixed page, which contains nothing of the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import parse_qs, urlsplit

from agentcli.core.aio import cancel_and_wait
from agentcli.core.frozen import frozen
from agentcli.mcp.connection import McpFailure

PATH = "/callback"
_HOST = "127.0.0.1"
_LARGEST_HEAD = 16 * 1024
"""Bytes of a request's head."""
_REQUEST_SECONDS = 10.0
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>agentcli</title>"
    b"<p>agentcli has received the answer. Close this page and return to the terminal."
)
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
)


@frozen
class RedirectAnswer:
    """The parameters of a redirect from an authorization server; None for a missing one."""

    code: str | None = None
    state: str | None = None
    issuer: str | None = None
    error: str | None = None

    @classmethod
    def parse(cls, address: str) -> RedirectAnswer | None:
        """The answer in an address; None if it has neither a code nor an error. A repeated parameter counts as
        missing."""
        try:
            found = parse_qs(urlsplit(address).query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            return None

        def only(name: str) -> str | None:
            values = found.get(name, ())
            return values[0] if len(values) == 1 else None

        answer = cls(only("code"), only("state"), only("iss"), only("error"))
        return answer if answer.code is not None or answer.error is not None else None


class RedirectListener:
    """Listens while it is entered as an async context manager."""

    def __init__(self, port: int = 0, *, exact: bool = False) -> None:
        """`exact`: fail if the port is in use, instead of taking any free one."""
        self._port = port
        self._exact = exact
        self._answer: asyncio.Future[RedirectAnswer] = asyncio.get_running_loop().create_future()
        self._requests: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._connected, _HOST, self._port, limit=_LARGEST_HEAD)
        except OSError:
            if self._exact:
                raise McpFailure(f"Port {self._port}, which the sign-in needs, is in use on this machine.") from None
            self._server = await asyncio.start_server(self._connected, _HOST, 0, limit=_LARGEST_HEAD)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        await cancel_and_wait(set(self._requests))
        await self._server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        return f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}{PATH}"

    async def answer(self) -> RedirectAnswer:
        """Wait for the answer."""
        return await asyncio.shield(self._answer)

    def accept(self, answer: RedirectAnswer) -> None:
        """Use this answer, unless there is one already."""
        if not self._answer.done():
            self._answer.set_result(answer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await self._respond(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._requests.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _blank, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target = rest.partition(" ")[0]
        answer = RedirectAnswer.parse(target) if method == "GET" and target.partition("?")[0] == PATH else None
        # 404 also for the icon that browsers ask for.
        status, page = ("404 Not Found", b"") if answer is None or self._answer.done() else ("200 OK", _PAGE)
        writer.write(f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n".encode() + page)
        await writer.drain()
        if answer is not None:
            # Last: whoever waits for it closes the listener, and with it this connection.
            self.accept(answer)
