"""A loopback HTTP server that answers each path as configured, for everything but the Messages API."""

from __future__ import annotations

import asyncio

from tests.support.http_server import HttpServer, head, read_request


class Listener(HttpServer):
    """`answers` by path without its query: status and body, or None to say nothing at all. Else 404."""

    def __init__(self, **answers: tuple[int, bytes] | None) -> None:
        self.answers: dict[str, tuple[int, bytes] | None] = {}
        for name, answer in answers.items():
            self.answers[f"/v1/{name.replace('__', '/')}"] = answer
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        """Method, path with its query, headers by lower-case name."""
        self.raw = b""
        """In place of an answer, when not empty."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        self.requests.append((request.method, request.target, request.headers))
        if self.raw:
            writer.write(self.raw)
            await writer.drain()
            return
        answer = self.answers.get(request.path, (404, b'{"error": "not found"}'))
        if answer is None:
            await reader.read()
            return
        status, body = answer
        sent = {"content_type": "application/json", "content_length": str(len(body)), "connection": "close"}
        writer.write(head(status, **sent) + body)
        await writer.drain()
