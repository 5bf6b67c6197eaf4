"""A small website on 127.0.0.1: each path answers as configured, over plain HTTP or TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from tests.support.http_server import HttpServer, head, read_request


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


class Website(HttpServer):
    def __init__(
        self, pages: Mapping[str, Answer | Callable[[], Awaitable[Answer]]], tls: ssl.SSLContext | None = None
    ) -> None:
        self.pages = dict(pages)
        self.asked: list[Asked] = []
        self.sent = 0
        self.tls, self.scheme = tls, "https" if tls else "http"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        asked = Asked(request.target, request.headers)
        self.asked.append(asked)
        page = self.pages.get(asked.target, Answer(b"nothing here", 404))
        await self._answer(page if isinstance(page, Answer) else await page(), reader, writer)

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = dict(answer.headers)
        if not answer.endless and not answer.stalls:
            headers["content-length"] = str(len(answer.body))
        writer.write(head(answer.status, **headers, connection="close") + answer.body)
        await writer.drain()
        while answer.endless:
            writer.write(answer.endless)
            self.sent += len(answer.endless)
            await writer.drain()
        if answer.stalls:
            await reader.read(1)
