"""The Messages API of the demo, on 127.0.0.1: asks the director for replies and streams them at reading speed.

Runs in a thread with its own event loop, so that it is ready before Textual is imported and nothing in the app waits
for it. It answers only clients with the key of this run, and no web pages in a browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import Self

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.demo.words import MODEL
from agentcli.providers.script import Delay, Emit, ErrorAnswer, Operation, ScriptedReply

TEXT_RATE, THINKING_RATE, CALL_RATE = 150.0, 260.0, 220.0
"""Characters per second."""
BEFORE_SECONDS = 0.5
"""Delay before a reply begins."""
MOST_BYTES = 32 * 1024 * 1024
MOST_HEAD_BYTES = 64 * 1024
STOP_SECONDS = 2.0
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    429: "Too Many Requests",
}


class _Gone(Exception):
    """The client has disconnected."""


@frozen
class _Request:
    method: str
    path: str
    headers: dict[str, str]
    length: int
    """Length of the body, which follows."""


class DemoServer:
    """Use it as a context manager. `url` and `key` are for the client."""

    def __init__(self, fixed: Callable[[], bool], next_line: Callable[[], str], speed: float = 1.0) -> None:
        self.key = f"demo-{secrets.token_hex(8)}"
        self.url = ""
        self.requests = 0
        self._fixed = fixed
        self._next_line = next_line
        self._speed = speed
        self._limited = self._just_limited = False
        self._billing = Billing()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="demo-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if not self.url:
            raise OSError("the demo server cannot listen on 127.0.0.1")
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has already ended
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        talking: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            talking.add(task)
            try:
                await self._talk(reader, writer)
            finally:
                talking.discard(task)

        with contextlib.suppress(OSError):
            server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=MOST_HEAD_BYTES)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self._ready.set()
            await self._stop.wait()
            server.close()
            for task in list(talking):
                task.cancel()
            await asyncio.gather(*talking, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _received(reader)) is not None:
                refusal = self._refusal(request.headers)
                if refusal is not None:
                    # Without reading the body: other programs on this machine must not fill the memory.
                    await _send(writer, refusal)
                    return
                await self._answer(request, await reader.readexactly(request.length), reader, writer)
        except (_Gone, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()

    def _refusal(self, headers: dict[str, str]) -> ErrorAnswer | None:
        if "origin" in headers:
            return _error(403, "permission_error", "The demo does not answer pages in a browser.")
        if not any(secrets.compare_digest(self.key.encode(), given.encode()) for given in _keys(headers)):
            return _error(401, "authentication_error", "This is not the key of the demo.")
        return None

    async def _answer(
        self, request: _Request, raw: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path = request.path.partition("?")[0]
        if path == "/v1/models":
            models = [{"type": "model", "id": MODEL, "display_name": "A script", "created_at": "2026-11-16T00:00:00Z"}]
            await _send(writer, _json({"data": models, "has_more": False, "first_id": MODEL, "last_id": MODEL}))
        elif path not in ("/v1/messages", "/v1/messages/count_tokens") or request.method != "POST":
            await _send(writer, _error(404, "not_found_error", f"The demo has no {path}."))
        else:
            await self._answer_body(path, raw, reader, writer)

    async def _answer_body(
        self, path: str, raw: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            await _send(writer, _error(400, "invalid_request_error", "messages: Field required"))
        elif path.endswith("count_tokens"):
            await _send(writer, _json({"input_tokens": tokens(body)}))
        else:
            await self._reply(body, reader, writer)

    async def _reply(self, body: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The first request imports the engine; the first frame must not wait for that.
        from agentcli.demo.director import World, reply_to

        self.requests += 1
        number = self.requests
        reply = reply_to(body, World(self._fixed(), self._limited, self._just_limited, self._next_line()))
        error = reply.error_answer()
        self._just_limited = error is not None
        if error is not None:
            self._limited = True
            await _send(writer, self._hurried(error))
            return
        written = sum(tokens(step) for step in reply.steps if "delay" not in step)
        usage = self._billing.usage(body, written)
        reply = replace(reply, usage=usage)
        operations = reply.operations(number, str(body.get("model", MODEL)))
        if not body.get("stream"):
            await _send(writer, _json(_whole(reply, usage, number, str(body.get("model", MODEL)))))
            return
        head = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        writer.write(_head(200, {**head, "request-id": f"req_demo_{number:04d}"}))
        await self._wait(BEFORE_SECONDS, reader)
        for operation in operations:
            await self._play(operation, reader, writer)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _play(self, operation: Operation, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(operation, Delay):
            await self._wait(operation.seconds, reader)
        elif isinstance(operation, Emit):
            event = operation.event
            data = f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
            await self._wait(_seconds(event), reader)

    async def _wait(self, seconds: float, reader: asyncio.StreamReader) -> None:
        await asyncio.sleep(seconds / self._speed)
        if reader.at_eof():
            raise _Gone

    def _hurried(self, error: ErrorAnswer) -> ErrorAnswer:
        after = error.headers.get("retry-after")
        if after is None or self._speed == 1:
            return error
        return replace(error, headers={**error.headers, "retry-after-ms": f"{1000 * float(after) / self._speed:.0f}"})


def _keys(headers: dict[str, str]) -> tuple[str, str]:
    return headers.get("x-api-key", ""), headers.get("authorization", "").removeprefix("Bearer ")


def _seconds(event: Json) -> float:
    """Time to read this event."""
    delta = event.get("delta") or {}
    match delta.get("type"):
        case "text_delta":
            return len(delta["text"]) / TEXT_RATE
        case "thinking_delta":
            return len(delta["thinking"]) / THINKING_RATE
        case "input_json_delta":
            return len(delta["partial_json"]) / CALL_RATE
        case _:
            return 0.0


def _whole(reply: ScriptedReply, usage: Json, number: int, model: str) -> Json:
    """The reply for a client that does not stream."""
    text = "".join(str(step["text"]) for step in reply.steps if "text" in step)
    calls = [
        {"type": "tool_use", "id": f"toolu_{number:06d}_{place:02d}", "name": step["tool"], "input": step["input"]}
        for place, step in enumerate(reply.steps)
        if "tool" in step
    ]
    content = [*([{"type": "text", "text": text}] if text else []), *calls]
    stop = "tool_use" if calls else "end_turn"
    return {
        "id": f"msg_{number:06d}", "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


async def _received(reader: asyncio.StreamReader) -> _Request | None:
    """The next request up to its body; None if the client closed the connection. Raises `ValueError` if not HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _version = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _colon, value in pairs}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= MOST_BYTES:
        raise ValueError(length)
    return _Request(method, path, headers, length)


async def _send(writer: asyncio.StreamWriter, answer: ErrorAnswer) -> None:
    content = answer.body.encode()
    headers = {"content-type": "application/json", "content-length": str(len(content)), **answer.headers}
    writer.write(_head(answer.status, headers) + content)
    await writer.drain()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _json(data: Json) -> ErrorAnswer:
    return ErrorAnswer(200, json.dumps(data), {})


def _error(status: int, type: str, message: str) -> ErrorAnswer:
    body = {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_demo"}
    return ErrorAnswer(status, json.dumps(body), {})


CHARACTERS_A_TOKEN = 4
LEAST_CACHED = 1_024
LOOKS_BACK = 20
"""How many blocks before a breakpoint are searched for a cached prefix."""


def tokens(value: object) -> int:
    return max(1, len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_A_TOKEN)


class Billing:
    """The cached prefixes of earlier requests. A demo ends before any of them would expire."""

    def __init__(self) -> None:
        self._kept: set[bytes] = set()

    def usage(self, body: Json, written: int) -> Json:
        """The usage of a request whose reply has `written` tokens."""
        key, total = b"", 0
        keys: list[bytes] = []
        totals: list[int] = []
        marks: list[int] = []
        for place, (block, marked) in enumerate(_blocks(body)):
            key = blake2b(key + block.encode(), digest_size=12).digest()
            total += max(1, len(block) // CHARACTERS_A_TOKEN)
            keys.append(key)
            totals.append(total)
            marks += [place] if marked else []
        hits = [
            place
            for mark in marks
            for place in range(mark, max(-1, mark - LOOKS_BACK), -1)
            if keys[place] in self._kept
        ]
        read = totals[max(hits)] if hits else 0
        end = totals[marks[-1]] if marks else 0
        new = max(0, end - read) if end >= LEAST_CACHED else 0
        self._kept |= {keys[mark] for mark in marks if totals[mark] >= LEAST_CACHED}
        return {
            "input_tokens": total - read - new,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": new,
            "cache_creation": {"ephemeral_5m_input_tokens": new, "ephemeral_1h_input_tokens": 0},
            "output_tokens": written,
        }


def _blocks(body: Json) -> Iterator[tuple[str, bool]]:
    """All blocks in cache order, and which of them have a breakpoint."""
    yield json.dumps([body.get("model"), body.get("output_config")]), False
    for tool in body.get("tools") or ():
        yield _bare(tool)
    system = body.get("system") or ()
    for part in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield _bare(part)
    yield json.dumps([body.get("thinking"), body.get("tool_choice")]), False
    for message in body.get("messages") or ():
        content = message.get("content") or ()
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            text, marked = _bare(block)
            yield f"{message.get('role')} {text}", marked


def _bare(block: Json) -> tuple[str, bool]:
    """A block without its breakpoint, which is not content."""
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(plain, ensure_ascii=False), "cache_control" in block
