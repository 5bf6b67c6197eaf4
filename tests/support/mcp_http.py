"""A small MCP server over HTTP on the loopback: streamable HTTP at /mcp, SSE at /sse, both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Self

from agentcli.core.aio import cancel_and_wait

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class McpHttpServer:
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
        self._channels: list[tuple[asyncio.StreamWriter, dict[str, Any]]] = []
        """Open event streams, and what their notifications carry."""
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def listen(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=1 << 20)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_exc: object) -> None:
        await self.vanish()

    async def vanish(self) -> None:
        """Close all connections."""
        self._server.close()
        await cancel_and_wait(set(self._open))
        await self._server.wait_closed()
        self._channels.clear()

    def change(self, *tools: str) -> None:
        self.tools = list(tools)
        for writer, carried in self._channels:
            params = {"params": carried} if carried else {}
            _write_event(writer, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", **params})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fixture: MCP connection")
        self._open.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._open.discard(task)
            self._channels = [each for each in self._channels if each[0] is not writer]
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether another may follow."""
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        method, path, _version = first.split()
        headers = {name.lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        message = json.loads(body) if body else {"method": f"{method} {path}"}
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
            _write_event(writer, answer)
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
    lines = [f"HTTP/1.1 {status} Status", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)


def _start_events(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")


def _write_event(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
