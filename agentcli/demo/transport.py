"""The transport of the demo: plays the director's replies at reading speed, in place of a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from hashlib import blake2b

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.providers.failures import Endpoint, ErrorResponse, from_response
from agentcli.providers.script import Delay, Emit, ErrorAnswer
from agentcli.providers.transports.base import Transport, TransportFailure

TEXT_RATE, THINKING_RATE, CALL_RATE = 150.0, 260.0, 220.0
"""Characters per second."""
BEFORE_SECONDS = 0.5
"""Delay before a reply begins."""


class DemoTransport(Transport):
    name = "demo"

    def __init__(self, fixed: Callable[[], bool], next_line: Callable[[], str], speed: float) -> None:
        self._fixed = fixed
        self._next_line = next_line
        self._speed = speed
        self._requests = 0
        self._limited = self._just_limited = False
        self._billing = Billing()

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        from agentcli.demo.director import World, reply_to

        self._requests += 1
        reply = reply_to(body, World(self._fixed(), self._limited, self._just_limited, self._next_line()))
        error = reply.error_answer()
        self._just_limited = error is not None
        if error is not None:
            self._limited = True
            raise TransportFailure(from_response(self._hurried(error), Endpoint(host="the demo")))
        written = sum(tokens(step) for step in reply.steps if "delay" not in step)
        reply = replace(reply, usage=self._billing.usage(body, written))
        await self._wait(BEFORE_SECONDS)
        for operation in reply.operations(self._requests, str(body["model"])):
            if isinstance(operation, Delay):
                await self._wait(operation.seconds)
            elif isinstance(operation, Emit):
                yield operation.event
                await self._wait(_seconds(operation.event))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)

    def _hurried(self, error: ErrorAnswer) -> ErrorResponse:
        """The error with its wait divided by the speed."""
        wait = {"retry-after-ms": f"{1000 * float(error.headers['retry-after']) / self._speed:.0f}"}
        return ErrorResponse(error.status, wait, error.body, now="")


def _seconds(event: Json) -> float:
    """Seconds to read this event."""
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


CHARACTERS_A_TOKEN = 4
LEAST_CACHED = 1_024
LOOKS_BACK = 20
"""Blocks before a breakpoint that are searched for a cached prefix."""


def tokens(value: object) -> int:
    return max(1, len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_A_TOKEN)


class Billing:
    """Simulates usage with a prompt cache of earlier prefixes. A demo ends before any of them would expire."""

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
    """All blocks in cache order, each with whether it has a breakpoint."""
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
    """A block as JSON without its breakpoint, which is not content, and whether it has one."""
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(plain, ensure_ascii=False), "cache_control" in block
