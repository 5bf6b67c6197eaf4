"""A Messages API on 127.0.0.1 that plays scripts, refuses what the true one refuses, and fails as scripted.

In a test:            async with LoopbackServer(reply(say("hi"))) as server: ... server.url, server.requests
In its own process:   python -m tests.support.server SCRIPT --port-file FILE [--log FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.providers.failures import ErrorResponse
from agentcli.providers.script import Break, Delay, Emit, Operation, Player, Script, ScriptedReply
from tests.support.http_server import HttpServer, head, read_request
from tests.support.validate import problems

Json = dict[str, Any]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    raw: bytes
    connection: int
    """Which connection it came on, from 1."""
    at: float
    """Wall clock, to be compared across processes of one machine."""

    @property
    def body(self) -> Json:
        return json.loads(self.raw)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Manners:
    """How the server speaks: all of it legal."""

    chunked: bool = True
    """False: the body ends when the connection does."""
    line_end: str = "\n"
    comments: bool = False
    split: int | None = None
    """Bytes per packet; cuts characters and line ends in two."""
    validate: bool = True
    ping_seconds: float = 0.01
    answer_once: bool = False
    """Close the connection after each answer."""


class _Gone(Exception):
    """The connection is finished with, on purpose."""


class LoopbackServer(HttpServer):
    def __init__(self, *replies: Json | str, script: Script | None = None, manners: Manners | None = None) -> None:
        self.requests: list[Received] = []
        self.closed_at: list[float] = []
        """Loop times at which a client closed a connection while it was being answered."""
        self.connections = 0
        self.player = Player(script or Script.parse(list(replies)))
        self._manners = manners or Manners()
        self._thinking: dict[str, list[Json]] = {}
        self._closed = asyncio.Event()
        self.log: Path | None = None

    @property
    def bodies(self) -> list[Json]:
        return [request.body for request in self.requests if request.path == "/v1/messages"]

    async def client_closed(self) -> float:
        """Wait until a client has closed a connection in the middle of an answer; the loop time of that."""
        await self._closed.wait()
        return self.closed_at[-1]

    # --------------------------------------------------------------------------------------------- one connection

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = _Connection(reader, writer, self.connections)
        with contextlib.suppress(socket.error):
            # Else the kernel holds small packets back, and latency tests measure that.
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(_Gone):
            while (request := await connection.receive()) is not None:
                self.requests.append(request)
                if self.log is not None:
                    entry = {"at": request.at, "path": request.path, "bytes": len(request.raw)}
                    with self.log.open("a") as log:
                        log.write(json.dumps(entry) + "\n")
                await self._answer(request, connection)
                if self._manners.answer_once:
                    break

    async def _answer(self, request: Received, connection: _Connection) -> None:
        path = request.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            await connection.send_json(200, {"input_tokens": max(len(request.raw) // 4, 1)})
            return
        if path != "/v1/messages":
            await connection.send_error(_error(404, "not_found_error", "Not found"))
            return
        wrong = self._wrong_with(request) if self._manners.validate else None
        if wrong is not None:
            await connection.send_error(_error(400, "invalid_request_error", wrong))
            return
        body = request.body
        reply = self.player.next(body)
        error = reply.error_answer()
        if error is not None:
            if "thinking" in error.body:
                self._thinking.clear()  # the script plays a server that refuses it: then it may come back stripped
            await connection.send_error(error)
            return
        try:
            await self._play(reply, connection, str(body.get("model")))
        except ConnectionError:
            self._client_left()
            raise

    def _wrong_with(self, request: Received) -> str | None:
        try:
            body = request.body
        except ValueError:
            return "the request body is not valid JSON"
        found = problems(body)
        if found:
            return found[0]
        if "task_budget" in body.get("output_config", {}) and "task-budgets" not in request.headers.get(
            "anthropic-beta", ""
        ):
            return "output_config.task_budget: Extra inputs are not permitted"
        if "anthropic-version" not in request.headers:
            return "anthropic-version: header is required"
        return self._wrong_thinking(body)

    def _wrong_thinking(self, body: Json) -> str | None:
        """The thinking of the last turn that called tools must come back as it was given."""
        calling = [m for m in body["messages"] if m["role"] == "assistant"]
        if not calling or not isinstance(calling[-1]["content"], list) or body["messages"][-1]["role"] != "user":
            return None
        blocks = calling[-1]["content"]
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not any(
            block.get("type") == "tool_result" for block in body["messages"][-1]["content"] if isinstance(block, dict)
        ):
            return None
        sent = [(b["thinking"], b["signature"]) for b in blocks if b["type"] == "thinking"]
        for id in ids:
            given = [(b["thinking"], b["signature"]) for b in self._thinking.get(id, ())]
            if given and sent != given and body.get("thinking", {}).get("type") != "disabled":
                return "messages: `thinking` blocks in the latest assistant message cannot be modified."
        return None

    # --------------------------------------------------------------------------------------------------- a reply

    async def _play(self, reply: ScriptedReply, connection: _Connection, model: str) -> None:
        operations = list(reply.operations(self.player.requests, model))
        self._remember_thinking(operations)
        if operations and operations[0] == Break("reset"):
            connection.reset()
        body = _Body(connection, self._manners)
        await body.begin()
        for operation in operations:
            if isinstance(operation, Emit):
                await body.event(operation.event)
            elif isinstance(operation, Delay):
                await self._wait(connection, operation.seconds)
            else:
                await self._break(operation, connection, body)
        await body.end()

    async def _break(self, operation: Break, connection: _Connection, body: _Body) -> None:
        match operation.fault:
            case "drop":
                await body.flush()
                connection.reset()
            case "eof":
                await body.end()
                raise _Gone
            case "stall":
                await body.flush()
                await self._wait(connection, None)
            case "garbage":
                await body.write(b"<<< not an event >>>\n\n")
            case "pings":
                while True:
                    await body.event({"type": "ping"})
                    await self._wait(connection, self._manners.ping_seconds)

    async def _wait(self, connection: _Connection, seconds: float | None) -> None:
        """Wait, but notice at once if the client goes."""
        try:
            async with asyncio.timeout(seconds):
                gone = await connection.reader.read(1) == b""
        except TimeoutError:
            return
        except ConnectionError:
            gone = True
        if gone:
            self._client_left()
            raise _Gone

    def _client_left(self) -> None:
        self.closed_at.append(asyncio.get_running_loop().time())
        self._closed.set()

    def _remember_thinking(self, operations: Sequence[Operation]) -> None:
        thoughts: dict[int, Json] = {}
        for operation in operations:
            event = operation.event if isinstance(operation, Emit) else {}
            match event:
                case {"type": "content_block_start", "index": index, "content_block": {"type": "thinking"}}:
                    thoughts[index] = {"thinking": "", "signature": ""}
                case {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": {"type": "thinking_delta", "thinking": text},
                }:
                    thoughts[index]["thinking"] += text
                case {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": {"type": "signature_delta", "signature": text},
                }:
                    thoughts[index]["signature"] += text
                case {"type": "content_block_start", "content_block": {"type": "tool_use", "id": id}}:
                    self._thinking[str(id)] = list(thoughts.values())


def _error(status: int, type: str, message: str) -> ErrorResponse:
    body = {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_loopback"}
    return ErrorResponse(status, {"request-id": "req_loopback"}, json.dumps(body))


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    async def receive(self) -> Received | None:
        try:
            request = await read_request(self.reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Received(request.target, request.headers, request.body, self.number, time.time())

    async def send_json(self, status: int, data: Json) -> None:
        await self.send_error(ErrorResponse(status, {}, json.dumps(data)))

    async def send_error(self, answer: ErrorResponse) -> None:
        content = answer.body.encode()
        kind = "text/html" if answer.body.lstrip().startswith("<") else "application/json"
        headers = {"content-type": kind, "content-length": str(len(content)), **answer.headers}
        self.writer.write(head(answer.status, **headers) + content)
        await self.writer.drain()

    def reset(self) -> None:
        """Close so that the client sees a reset, not an end."""
        with contextlib.suppress(OSError):
            linger = struct.pack("ii", 1, 0)
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()
        raise _Gone


@dataclass
class _Body:
    connection: _Connection
    manners: Manners
    buffered: list[bytes] = field(default_factory=list)

    async def begin(self) -> None:
        headers = {"content-type": "text/event-stream; charset=utf-8", "request-id": "req_loopback"}
        headers |= {"transfer-encoding": "chunked"} if self.manners.chunked else {"connection": "close"}
        self.connection.writer.write(head(200, **headers))

    async def event(self, data: Json) -> None:
        end = self.manners.line_end
        comment = f": keep-alive{end}{end}" if self.manners.comments else ""
        name = f"event: {data['type']}{end}" if "type" in data else ""
        text = json.dumps(data, ensure_ascii=False)
        await self.write(f"{comment}{name}data: {text}{end}{end}".encode())

    async def write(self, data: bytes) -> None:
        size = self.manners.split or len(data)
        for start in range(0, len(data), size):
            part = data[start : start + size]
            if self.manners.chunked:
                part = f"{len(part):x}\r\n".encode() + part + b"\r\n"
            self.connection.writer.write(part)
            if self.manners.split:
                await self.connection.writer.drain()
                await asyncio.sleep(0)
        await self.connection.writer.drain()

    async def flush(self) -> None:
        await self.connection.writer.drain()

    async def end(self) -> None:
        if self.manners.chunked:
            self.connection.writer.write(b"0\r\n\r\n")
            await self.connection.writer.drain()
        else:
            raise _Gone


async def _serve(script: Path, port_file: Path, log: Path | None) -> None:
    server = LoopbackServer(script=Script.load(script))
    server.log = log
    async with server:
        waiting = port_file.with_suffix(".new")
        waiting.write_text(str(server.port))
        waiting.rename(port_file)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.script, options.port_file, options.log))
    sys.exit(0)


if __name__ == "__main__":
    main()
