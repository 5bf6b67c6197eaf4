"""A small MCP server over HTTP on the loopback: streamable HTTP at /mcp, SSE at /sse, both protocols."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.support.http_server import HttpServer, head, read_request

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class McpHttpServer(HttpServer):
    def __init__(self, *, streams: bool = False, is_modern: bool = False) -> None:
        """`streams`: answers are event streams. `is_modern`: it speaks the stateless protocol."""
        self.streams = streams
        self.is_modern = is_modern
        self.session = "session-1"
        self.tools = ["work"]
        self.result: dict[str, Any] = {"content": [{"type": "text", "text": "done"}]}
        self.refusals: dict[str, tuple[int, str, str]] = {}
        """By method of the protocol: status, name and value of a header."""
        self.silent: set[str] = set()
        """Methods that are never answered."""
        self.received: list[tuple[str, dict[str, str]]] = []
        """Methods with their HTTP headers."""
        self.body = b""
        """In place of the next answer to a call."""
        self.event_end = b"\n\n"
        """What follows the data of an answer that is an event stream."""
        self._channels: list[tuple[asyncio.StreamWriter, dict[str, Any]]] = []
        """Open event streams, and what their notifications carry."""

    async def vanish(self) -> None:
        await super().vanish()
        self._channels.clear()

    def change(self, *tools: str) -> None:
        self.tools = list(tools)
        for writer, carried in self._channels:
            params = {"params": carried} if carried else {}
            _write_event(writer, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", **params})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve(reader, writer):
                pass
        finally:
            self._channels = [each for each in self._channels if each[0] is not writer]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether another may follow."""
        request = await read_request(reader)
        method, path, headers = request.method, request.target, request.headers
        message = json.loads(request.body) if request.body else {"method": f"{method} {path}"}
        asked = message.get("method", "answer")
        self.received.append((asked, headers))
        if asked in self.refusals:
            status, name, value = self.refusals[asked]
            _write(writer, status, b"no", **{name: value})
        elif method == "GET":
            await self._event_stream(reader, writer, path)
            return False
        elif method == "DELETE":
            _write(writer, 200, b"")
        elif headers.get("mcp-session-id", self.session) != self.session:
            _write(writer, 404, b"no such session")
        elif asked in self.silent or "id" not in message or "method" not in message:
            if asked in self.silent:
                await reader.read()
                return False
            _write(writer, 202, b"")
        else:
            return await self._answer(reader, writer, path, message)
        await writer.drain()
        return True

    async def _event_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        _start_events(writer)
        if path == "/sse":
            writer.write(b"event: endpoint\ndata: /post\n\n")
        self._channels.append((writer, {}))
        await reader.read()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, message: dict[str, Any]
    ) -> bool:
        answer = {"jsonrpc": "2.0", "id": message["id"], **self._result(message)}
        if message["method"] == "subscriptions/listen":
            carried = {"_meta": {SUBSCRIPTION: message["id"]}}
            _start_events(writer)
            params = {**carried, "notifications": message["params"]["notifications"]}
            _write_event(
                writer,
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params},
            )
            self._channels.append((writer, carried))
            await reader.read()
            return False
        if path == "/post":
            _write(writer, 202, b"")
            _write_event(self._channels[-1][0], answer)
            return True
        if self.streams:
            _start_events(writer)
            _write_event(writer, answer, self.event_end)
            return False
        body = json.dumps(answer).encode()
        if message["method"] == "tools/call" and self.body:
            body = self.body
        _write(writer, 200, body, **{"content-type": "application/json", "mcp-session-id": self.session})
        await writer.drain()
        return True

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        capabilities = {"tools": {"listChanged": True}}
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.is_modern else {}
        match message["method"]:
            case "server/discover" if self.is_modern:
                return {"result": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **complete}}
            case "initialize" if not self.is_modern:
                version = message["params"]["protocolVersion"]
                info = {"name": "http", "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
                return {"result": {"tools": tools, **complete}}
            case "tools/call":
                return {"result": {**self.result, **complete}}
        return {"error": {"code": -32601, "message": "unknown method"}}


def _write(writer: asyncio.StreamWriter, status: int, body: bytes, **headers: str) -> None:
    writer.write(head(status, **headers, content_length=str(len(body))) + body)


def _start_events(writer: asyncio.StreamWriter) -> None:
    writer.write(head(200, content_type="text/event-stream", connection="close"))


def _write_event(writer: asyncio.StreamWriter, message: dict[str, Any], end: bytes = b"\n\n") -> None:
    writer.write(b"event: message\ndata: " + json.dumps(message).encode() + end)
