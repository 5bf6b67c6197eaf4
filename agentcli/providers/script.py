"""The script format of the scripted model, for the in-process player and the loopback server.

    {"version": 1, "replies": [REPLY, ...]}

A reply is one of

    {"text": "hi"}                                                  short for one text step
    {"steps": [STEP, ...], "stop_reason"?, "usage"?, "model"?, "stop_details"?}
    {"error": {"status": 529, "type"?, "message"?, "headers"?, "body"?}}

each with, optionally, "match": a regular expression on the text of the last user message or of the system prompt
(such a reply is taken only by requests that match, before those in order), and "repeat": a number, or true.

A step is one of

    {"text": "...", "chunk"?: characters per delta}    {"thinking": "...", "signature"?: "..."}
    {"tool": "Read", "input": {...}, "id"?: "...", "raw_input"?: "text instead of input", "chunk"?: n}
    {"delay": seconds}    {"event": an event of the API, as it stands}
    {"fault": "drop" | "eof" | "stall" | "garbage" | "reset" | "pings"}

`ScriptedTransport` plays a script without a network, for tests, the demo and replay.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, get_args

from agentcli.core.aio import AbortSignal
from agentcli.core.errors import UsageError
from agentcli.core.files.access import parse_json
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.providers.base import Transport, TransportFailure
from agentcli.providers.failures import (
    STATUS_OF_TYPE,
    Endpoint,
    ErrorResponse,
    broken,
    from_error_event,
    from_exception,
    from_response,
)

Fault = Literal["drop", "eof", "stall", "garbage", "reset", "pings"]
FAULTS: tuple[str, ...] = get_args(Fault)
_STEPS = ("text", "thinking", "tool", "delay", "event", "fault")
_DEFAULT_CHUNK = 24
PING_SECONDS = 10.0


@frozen
class Emit:
    event: Json


@frozen
class Delay:
    seconds: float


@frozen
class Break:
    fault: Fault


Operation = Emit | Delay | Break


@frozen
class ScriptedReply:
    steps: tuple[Json, ...] = ()
    error: Json | None = None
    stop_reason: str | None = None
    stop_details: Json | None = None
    usage: Json = field(default_factory=dict)
    model: str | None = None
    match: re.Pattern[str] | None = None
    repeat: int | None = 1
    """None: unlimited."""

    def error_answer(self) -> ErrorResponse | None:
        if self.error is None:
            return None
        status = int(self.error.get("status", 500))
        by_status = {number: name for name, number in STATUS_OF_TYPE.items()}
        kind = self.error.get("type") or by_status.get(status, "api_error")
        message = self.error.get("message", "scripted error")
        body = self.error.get("body")
        if body is None:
            body = json.dumps(
                {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}
            )
        headers = {str(name): str(value) for name, value in (self.error.get("headers") or {}).items()}
        return ErrorResponse(status, headers, body)

    def operations(self, number: int, model: str) -> Iterator[Operation]:
        """The reply as API events; `number` (of the request) makes its ids unique."""
        first = self.steps[0] if self.steps else {}
        if first.get("fault") == "reset":
            yield Break("reset")
            return
        usage = {
            "input_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 5,
            **self.usage,
        }
        at_the_end = {key: usage.pop(key) for key in ("iterations",) if key in usage}
        message: Json = {
            "id": f"msg_{number:06d}",
            "type": "message",
            "role": "assistant",
            "model": self.model or model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**usage, "output_tokens": min(1, int(usage["output_tokens"] or 0))},
        }
        yield Emit({"type": "message_start", "message": message})
        index = 0
        for step in self.steps:
            if "delay" in step:
                yield Delay(float(step["delay"]))
            elif "event" in step:
                yield Emit(step["event"])
                index += step["event"].get("type") == "content_block_stop"
            elif "fault" in step:
                yield Break(step["fault"])
                if step["fault"] != "garbage":
                    return
            else:
                yield from _block(step, index, f"toolu_{number:06d}_{index:02d}")
                index += 1
        stop = self.stop_reason or ("tool_use" if any("tool" in step for step in self.steps) else "end_turn")
        delta: Json = {"stop_reason": stop, "stop_sequence": None}
        if self.stop_details is not None:
            delta["stop_details"] = self.stop_details
        final = {"output_tokens": usage["output_tokens"], **at_the_end}
        yield Emit({"type": "message_delta", "delta": delta, "usage": final})
        yield Emit({"type": "message_stop"})


def _block(step: Json, index: int, tool_id: str) -> Iterator[Operation]:
    deltas: list[Json]
    if "tool" in step:
        block: Json = {"type": "tool_use", "id": step.get("id", tool_id), "name": step["tool"], "input": {}}
        raw = step["raw_input"] if "raw_input" in step else json.dumps(step.get("input", {}), ensure_ascii=False)
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in _chunks(raw, step)]
    elif "thinking" in step:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _chunks(step["thinking"], step)]
        signature = step.get("signature", f"sig-{index}")
        if signature:
            deltas.append({"type": "signature_delta", "signature": signature})
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in _chunks(step["text"], step)]
    yield Emit({"type": "content_block_start", "index": index, "content_block": block})
    for delta in deltas:
        yield Emit({"type": "content_block_delta", "index": index, "delta": delta})
    yield Emit({"type": "content_block_stop", "index": index})


def _chunks(text: str, step: Json) -> list[str]:
    size = max(int(step.get("chunk", _DEFAULT_CHUNK)), 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


@frozen
class Script:
    replies: tuple[ScriptedReply, ...]

    @classmethod
    def parse(cls, data: Mapping[str, Any] | Sequence[Any] | str) -> Script:
        """Parse JSON text, an object, or only the list of replies. Raises `UsageError` that names the place."""
        if isinstance(data, str):
            try:
                data = parse_json(data)
            except ValueError as error:
                raise UsageError(f"The script is not JSON: {error}. Correct the file.") from None
        if isinstance(data, Mapping):
            if data.get("version", 1) != 1:
                raise UsageError(f"The script has version {data['version']!r}; this program reads version 1.")
            data = data.get("replies", ())
        if not isinstance(data, Sequence) or isinstance(data, str):
            raise UsageError('The script needs a list named "replies".')
        return cls(tuple(_reply(item, f"replies[{place}]") for place, item in enumerate(data)))

    @classmethod
    def load(cls, path: Path) -> Script:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"Cannot read the script {path}: {error}. Check the path.") from None
        return cls.parse(text)


def _reply(item: Any, place: str) -> ScriptedReply:
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, Mapping):
        raise UsageError(f"{place} of the script is not an object.")
    steps = item.get("steps")
    if steps is None:
        steps = [{"text": item["text"]}] if "text" in item else []
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise UsageError(f"{place}.steps of the script is not a list.")
    if "error" not in item and "steps" not in item and "text" not in item:
        raise UsageError(f'{place} of the script has neither "steps", "text" nor "error".')
    for number, step in enumerate(steps):
        _check_step(step, f"{place}.steps[{number}]")
    repeat = item.get("repeat", 1)
    try:
        match = re.compile(item["match"]) if item.get("match") is not None else None
    except re.error as error:
        raise UsageError(f"{place}.match of the script is not a regular expression: {error}.") from None
    return ScriptedReply(
        steps=tuple(dict(step) for step in steps),
        error=item.get("error"),
        stop_reason=item.get("stop_reason"),
        stop_details=item.get("stop_details"),
        usage=dict(item.get("usage") or {}),
        model=item.get("model"),
        match=match,
        repeat=None if repeat is True else int(repeat),
    )


def _check_step(step: Any, place: str) -> None:
    if not isinstance(step, Mapping) or not any(kind in step for kind in _STEPS):
        raise UsageError(f"{place} of the script is not one of: {', '.join(_STEPS)}.")
    if "fault" in step and step["fault"] not in FAULTS:
        raise UsageError(f"{place} of the script has an unknown fault {step['fault']!r}; known: {', '.join(FAULTS)}.")


class Player:
    """Chooses the next reply: the state of a script during play."""

    def __init__(self, script: Script) -> None:
        self._left: list[list[Any]] = [[reply, reply.repeat] for reply in script.replies]
        self.requests = 0

    def next(self, body: Json) -> ScriptedReply:
        """The reply to this request; an error reply if none is left."""
        self.requests += 1
        texts = (last_user_text(body), system_text(body))
        for entry in self._left:
            if entry[0].match is not None and any(entry[0].match.search(text) for text in texts):
                return self._take(entry)
        for entry in self._left:
            if entry[0].match is None:
                return self._take(entry)
        return ScriptedReply(
            error={"status": 400, "message": f"the script has no reply left for request {self.requests}"}
        )

    def _take(self, entry: list[Any]) -> ScriptedReply:
        reply: ScriptedReply = entry[0]
        if entry[1] is not None:
            entry[1] -= 1
            if entry[1] <= 0:
                self._left.remove(entry)
        return reply


def last_user_text(body: Json) -> str:
    for message in reversed(body.get("messages") or ()):
        if message.get("role") == "user":
            return _text_of(message.get("content"))
    return ""


def system_text(body: Json) -> str:
    return _text_of(body.get("system"))


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        str(block.get("text", "")) for block in content if isinstance(block, dict) and block.get("type") == "text"
    )


CheckRequest = Callable[[Json], str | None]


class ScriptedTransport(Transport):
    """`requests` holds the bodies received. `on_request` may refuse one by returning an error text (a 400)."""

    name = "scripted"

    def __init__(self, script: Script, on_request: CheckRequest | None = None) -> None:
        self.requests: list[Json] = []
        self.betas: list[tuple[str, ...]] = []
        self.player = Player(script)
        self._on_request = on_request

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        self.requests.append(body)
        self.betas.append(betas)
        number = len(self.requests)
        where = Endpoint(host="the scripted model", model=str(body.get("model", "")))
        wrong = self._on_request(body) if self._on_request is not None else None
        reply = self.player.next(body) if wrong is None else ScriptedReply(error={"status": 400, "message": wrong})
        error = reply.error_answer()
        # A real request always yields to the event loop; not doing so would hide starvation.
        await asyncio.sleep(0)
        if error is not None:
            raise TransportFailure(from_response(error, where))
        for operation in reply.operations(number, str(body.get("model", ""))):
            if isinstance(operation, Emit):
                if operation.event.get("type") == "error":
                    raise TransportFailure(from_error_event(operation.event, where))
                yield operation.event
            elif isinstance(operation, Delay):
                await asyncio.sleep(operation.seconds)
            elif operation.fault == "eof":
                return
            elif operation.fault == "pings":
                while True:
                    yield {"type": "ping"}
                    await asyncio.sleep(PING_SECONDS)
            else:
                await _fail(operation, where)


async def _fail(operation: Break, where: Endpoint) -> None:
    if operation.fault == "stall":
        await asyncio.Event().wait()
    if operation.fault == "garbage":
        raise TransportFailure(broken("the server sent something that is not an event", "garbage"))
    raise TransportFailure(from_exception(ConnectionResetError("connection reset by peer"), where))
