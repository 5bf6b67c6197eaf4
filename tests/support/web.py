"""A small website on 127.0.0.1: each path answers as configured, over plain HTTP or TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from agentcli.core.aio import cancel_and_wait


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/html; charset=utf-8"})
    endless: bytes = b""
    """Sent again and again after the body, until the client goes."""
    stalls: bool = False
    """Nothing more comes after the body, and the connection stays."""


@dataclass(frozen=True)
class Asked:
    target: str
    headers: Mapping[str, str]


def redirect(location: str, status: int = 302) -> Answer:
    return Answer(status=status, headers={"location": location})


class Website:
    def __init__(
        self, pages: Mapping[str, Answer | Callable[[], Awaitable[Answer]]], tls: ssl.SSLContext | None = None
    ) -> None:
        self.pages = dict(pages)
        self.asked: list[Asked] = []
        self.sent = 0
        self._tls = tls
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await cancel_and_wait(set(self._open))
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fixture: website connection")
        self._open.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
            asked = Asked(head[0].split(" ")[1], headers)
            self.asked.append(asked)
            page = self.pages.get(asked.target, Answer(b"nothing here", 404))
            await self._answer(page if isinstance(page, Answer) else await page(), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError, ssl.SSLError):
                await writer.wait_closed()

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {answer.status} Because", *(f"{k}: {v}" for k, v in answer.headers.items())]
        if not answer.endless and not answer.stalls:
            lines.append(f"content-length: {len(answer.body)}")
        writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + answer.body)
        await writer.drain()
        while answer.endless:
            writer.write(answer.endless)
            self.sent += len(answer.endless)
            await writer.drain()
        if answer.stalls:
            await reader.read(1)
