"""Scripts in a few words: `provider_for(reply(say("hi")))`, `reply(call("Read", file_path="x"))`, `fails(529)`."""

from __future__ import annotations

from typing import Any

from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json
from agentcli.providers.catalog import Catalog
from agentcli.providers.provider import MessagesProvider, RetryPolicy, Timeouts
from agentcli.providers.script import CheckRequest, Script, ScriptedTransport

_LONG = 1_000


def say(text: str, chunk: int | None = None) -> Json:
    """A long text arrives in few pieces unless told otherwise: each one takes the whole way to the front end."""
    if chunk is None and len(text) > _LONG:
        chunk = _LONG
    return {"text": text} if chunk is None else {"text": text, "chunk": chunk}


def think(text: str, signature: str | None = None) -> Json:
    return {"thinking": text} if signature is None else {"thinking": text, "signature": signature}


def call(tool: str, /, **input: Any) -> Json:
    return {"tool": tool, "input": input}


def call_raw(tool: str, raw_input: str) -> Json:
    return {"tool": tool, "raw_input": raw_input}


def call_with_id(id: str, tool: str, /, **input: Any) -> Json:
    return {"tool": tool, "input": input, "id": id}


def pause(seconds: float) -> Json:
    return {"delay": seconds}


def fault(kind: str) -> Json:
    return {"fault": kind}


def event(data: Json) -> Json:
    return {"event": data}


def reply(*steps: Json | str, **rest: Any) -> Json:
    """A reply of steps; `rest`: stop_reason, usage, model, stop_details, match, repeat."""
    return {"steps": [say(step) if isinstance(step, str) else step for step in steps], **rest}


def fails(status: int, message: str = "scripted error", type: str | None = None, **rest: Any) -> Json:
    """An error answer; `rest`: headers, body, and repeat or match of the reply."""
    error: Json = {"status": status, "message": message}
    if type is not None:
        error["type"] = type
    outer = {key: rest.pop(key) for key in ("repeat", "match") if key in rest}
    return {"error": {**error, **rest}, **outer}


def script(*replies: Json | str) -> Script:
    return Script.parse([item if isinstance(item, dict) else reply(item) for item in replies])


def transport_for(*replies: Json | str, on_request: CheckRequest | None = None) -> ScriptedTransport:
    return ScriptedTransport(script(*replies), on_request)


def provider_on(
    transport: Any, policy: RetryPolicy | None = None, timeouts: Timeouts | None = None, catalog: Catalog | None = None
) -> MessagesProvider:
    """A provider without chance: waits are exactly in the middle of their spread, ids are in sequence."""
    return MessagesProvider(transport, catalog, policy, timeouts, SequentialIds(), chance=lambda: 0.5)


def provider_for(*replies: Json | str, **rest: Any) -> MessagesProvider:
    return provider_on(transport_for(*replies), **rest)
