"""Read results of servers without trusting them.

The `mcp` library validates whole results on the event loop, which takes a second for a large one, and rejects a list
because of one bad entry. So results are removed from the messages before the library sees them: `AnswerReader.take`
converts a result to our own types, in a thread if it is large, and puts a small stub with a ticket in its place;
`claim` returns the converted result for the ticket.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Self

from agentcli.core.aio import in_thread
from agentcli.core.files.access import parse_json
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json
from agentcli.mcp.contents import (
    ResultRefused,
    read_call,
    read_messages,
    read_prompts,
    read_resource,
    read_resources,
    read_templates,
    read_tools,
)
from agentcli.mcp.link import ServerLimits, ServerLink, run_outside_scopes

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage


TICKET = "agentcli/ticket"
_MAX_MESSAGE_DEPTH = 300
_MAX_OTHER_BYTES = 1024 * 1024
"""Maximum bytes of a result that is passed to the library unchanged."""
_MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a request from the server, such as one for sampling with images."""
_LOG_LINES_A_SECOND = 50
_PARSE_ERROR = -32700
_MAX_UNCLAIMED = 64


@frozen
class TakenResult:
    """The converted content of one result."""

    value: Any
    cursor: str | None = None
    problem: str = ""
    """Why it cannot be used; empty if it can."""


@slotted
class _Counter:
    """Counts what came since the beginning of the current interval."""

    since: float = -math.inf
    count: int = 0

    def add(self, seconds: float) -> int:
        """Count one more; `seconds` is the length of an interval. Returns the number in this one."""
        now = asyncio.get_running_loop().time()
        if self.since <= now - seconds:
            self.since, self.count = now, 0
        self.count += 1
        return self.count


@slotted
class _Asked:
    method: str
    reports: _Counter = field(default_factory=_Counter)


_READERS: Mapping[str, tuple[str, Callable[[Json], Any]]] = {
    "tools/list": ("tools", read_tools),
    "resources/list": ("resources", read_resources),
    "resources/templates/list": ("resourceTemplates", read_templates),
    "prompts/list": ("prompts", read_prompts),
    "tools/call": ("content", read_call),
    "resources/read": ("contents", read_resource),
    "prompts/get": ("messages", read_messages),
}


class AnswerReader:
    def __init__(self, link: ServerLink, limits: ServerLimits) -> None:
        self._link = link
        self._limits = limits
        self._asked: dict[int | str, _Asked] = {}
        self._pages: dict[str, TakenResult] = {}
        self._log_lines = _Counter()

    # ---------------------------------------------------------------------------------------------- messages to servers

    @property
    def inline_bytes(self) -> int:
        return self._limits.inline_bytes

    def note_request(self, request: int | str, method: str) -> None:
        self._asked[request] = _Asked(method)

    def note_cancel(self, request: Any) -> None:
        if isinstance(request, int | str):
            self._asked.pop(request, None)

    def claim(self, meta: Mapping[str, Any] | None) -> TakenResult | None:
        """The converted result for the ticket in this `_meta`, removed from the store; None if there is none."""
        ticket = (meta or {}).get(TICKET)
        return self._pages.pop(ticket, None) if isinstance(ticket, str) else None

    # -------------------------------------------------------------------------------------------- messages from servers

    async def parse(self, data: bytes) -> Json:
        """Parse one message; a large result is replaced by its stub. Raises `ValueError`."""
        if is_small := len(data) <= self._limits.inline_bytes:
            message = parse_json(data, deepest=_MAX_MESSAGE_DEPTH)
        elif len(data) > self._limits.result_bytes:
            raise ValueError(f"it has {len(data):,} bytes")
        else:
            message = await run_outside_scopes(in_thread(parse_json, data, deepest=_MAX_MESSAGE_DEPTH))
        if not isinstance(message, dict):
            raise ValueError("not an object")
        return message if is_small else await self._reduce(message, len(data))

    async def _reduce(self, message: Json, size: int) -> Json:
        if "method" in message:
            if "id" not in message or size > _MAX_REQUEST_BYTES:
                raise ValueError(f"{message['method']} with {size:,} bytes")
            return message
        request, result = message.get("id"), message.get("result")
        asked = self._asked.get(request) if isinstance(request, int | str) else None
        if asked is not None and isinstance(result, dict) and _takes(asked.method, result):
            return {"jsonrpc": "2.0", "id": request, "result": await self.take(request, result)}
        if size > _MAX_OTHER_BYTES:
            return error_answer(request, f"the answer has {size:,} bytes")
        return message

    async def take(self, request: Any, result: Json) -> Json:
        """The result with its content replaced by a ticket; unchanged if there was no such request or the library must
        read it."""
        asked = self._asked.pop(request, None) if isinstance(request, int | str) else None
        if asked is None or not _takes(asked.method, result):
            return result
        key, read = _READERS[asked.method]
        page = await run_outside_scopes(in_thread(_read_page, read, result))
        ticket = secrets.token_hex(8)
        if len(self._pages) >= _MAX_UNCLAIMED:
            # Drop the oldest: its call ended while the result was read.
            del self._pages[next(iter(self._pages))]
        self._pages[ticket] = page
        kept = {name: value for name, value in result.items() if isinstance(value, bool | int | float | None)}
        kept |= {name: result[name] for name in ("resultType", "cacheScope") if isinstance(result.get(name), str)}
        rest = await run_outside_scopes(in_thread(_tool_stubs, page)) if key == "tools" else []
        return {**kept, key: rest, "_meta": {TICKET: ticket}}

    def admit(self, method: str, params: Any) -> bool:
        """Whether to pass a notification to the library: not log messages, nor more progress than can be shown."""
        details = params if isinstance(params, dict) else {}
        if method == "notifications/message":
            self._log_message(details)
            return False
        if method == "notifications/progress":
            token = details.get("progressToken")
            asked = self._asked.get(token) if isinstance(token, int | str) else None
            limits = self._limits
            return asked is not None and asked.reports.add(limits.progress_seconds) <= limits.progress_reports
        return True

    def _log_message(self, details: Json) -> None:
        count = self._log_lines.add(1)
        if count < _LOG_LINES_A_SECOND:
            data = details.get("data")
            text = data if isinstance(data, str) else json.dumps(data)
            self._link.note(f"{details.get('level')}: {text}")
        elif count == _LOG_LINES_A_SECOND:
            self._link.note("(more log messages in this second)")


def error_answer(request: Any, reason: str) -> Json:
    """An error response in place of one that cannot be read."""
    return {"jsonrpc": "2.0", "id": request, "error": {"code": _PARSE_ERROR, "message": reason}}


def _takes(method: str, result: Json) -> bool:
    """Whether a result is converted here. Questions of the server within a call are for the library."""
    return method in _READERS and result.get("resultType", "complete") == "complete"


def _read_page(read: Callable[[Json], Any], result: Json) -> TakenResult:
    cursor = result.get("nextCursor")
    try:
        value = read(result)
    except ResultRefused as error:
        return TakenResult(None, problem=str(error))
    except Exception as error:  # noqa: BLE001  untrusted data may have any shape
        return TakenResult(None, problem=f"the answer is malformed ({type(error).__name__})")
    return TakenResult(value, cursor if isinstance(cursor, str) and len(cursor) <= 4096 else None)


def _tool_stubs(page: TakenResult) -> list[Json]:
    """The parts of tools that the library needs: names, and the schemas whose arguments become HTTP headers."""
    if page.value is None:
        return []
    schemas = {tool.name: tool.input_schema for tool in page.value[0]}
    return [
        {"name": name, "inputSchema": schema if "x-mcp-header" in json.dumps(schema) else {"type": "object"}}
        for name, schema in schemas.items()
    ]


class _Stream:
    def __init__(self, inner: Any, reader: AnswerReader) -> None:
        self._inner = inner
        self._reader = reader

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


class IncomingMessages(_Stream):
    """Messages from a server. The end of the stream ends the link."""

    def __init__(self, inner: Any, reader: AnswerReader, link: ServerLink) -> None:
        super().__init__(inner, reader)
        self._link = link

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> IncomingMessages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from mcp_types import JSONRPCNotification, JSONRPCResponse

        while True:
            try:
                item: SessionMessage | Exception = await self._inner.__anext__()
            except StopAsyncIteration:
                self._link.end("the connection was closed")
                raise
            except Exception as error:
                self._link.end(f"the connection broke: {error or type(error).__name__}")
                raise
            if isinstance(item, Exception):
                self._link.note(f"unreadable message: {item}")
                continue
            message = item.message
            if isinstance(message, JSONRPCResponse):
                message.result = await self._reader.take(message.id, message.result)
            elif isinstance(message, JSONRPCNotification) and not self._reader.admit(message.method, message.params):
                continue
            return item

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()


class OutgoingMessages(_Stream):
    """Messages to a server. Requests are recorded, so that their results can be read."""

    async def send(self, item: SessionMessage) -> None:
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._reader.note_request(message.id, message.method)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._reader.note_cancel((message.params or {}).get("requestId"))
        await self._inner.send(item)


@asynccontextmanager
async def read_transport(inner: Any, reader: AnswerReader, link: ServerLink) -> AsyncGenerator[TransportStreams, None]:
    """A transport of the library whose results an `AnswerReader` reads."""
    async with inner as (incoming, outgoing):
        yield IncomingMessages(incoming, reader, link), OutgoingMessages(outgoing, reader)
