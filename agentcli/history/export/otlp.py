"""Prompts of a session as OpenTelemetry spans: OTLP JSON, with the names of the GenAI semantic conventions.

A prompt is a trace: `invoke_agent` with `chat` and `execute_tool` below it, and a sub-agent below its call. All ids
come from ids of the session, so that a repeated export is identical and replaces the earlier one. Texts are left out
unless they are asked for, and then without secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from agentcli import __version__
from agentcli.core import events as ev
from agentcli.core.frozen import slotted
from agentcli.core.messages import Block, Json, TextBlock, ThinkingBlock, ToolUseBlock
from agentcli.core.text.secret_text import redact_values, without_secrets
from agentcli.history.trace import TraceRow, make_trace
from agentcli.session.load import load_session
from agentcli.session.timeline import CallStep, PromptStep, RequestStep, Timeline

_INTERNAL, _CLIENT, _ERROR = 1, 3, 2
"""Values of SpanKind and StatusCode."""
_PROVIDER = {"gen_ai.provider.name": "anthropic"}
_SERVER_TOOL = re.compile(r"mcp__(.+?)__(.+)")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_START = datetime(1970, 1, 1, tzinfo=UTC)


def export_prompts(timeline: Timeline, prompts: Iterable[PromptStep], *, contents: bool = False) -> list[Json]:
    """The spans of these prompts. `contents`: with texts. Blocking. Raises `OSError`."""
    replies = _Replies() if contents else None
    return [span for prompt in prompts for span in _Exporter(timeline, prompt, replies).export()]


def wrap_spans(spans: list[Json]) -> Json:
    """An `ExportTraceServiceRequest`."""
    scope = {"name": "agentcli", "version": __version__}
    resource = {"attributes": _attributes({"service.name": "agentcli", "service.version": __version__})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


class _Replies:
    """The contents of replies by their ids. Each session file is read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[Block, ...]]] = {}

    def find(self, timeline: Timeline, message_id: str) -> tuple[Block, ...]:
        if timeline.session_id not in self._known:
            messages = load_session(timeline.path, with_history=False).messages
            self._known[timeline.session_id] = {message.id: message.content for message in messages}
        return self._known[timeline.session_id].get(message_id, ())


@slotted
class _Span:
    id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    """Both in milliseconds since the prompt."""
    attributes: dict[str, Any]
    """Those that are None are left out."""
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """Time, name and attributes."""


class _Exporter:
    def __init__(self, timeline: Timeline, prompt: PromptStep, replies: _Replies | None) -> None:
        """`replies`: None if texts are left out."""
        self._timeline = timeline
        self._prompt = prompt
        self._replies = replies
        self._spans: list[_Span] = []
        self._agents: dict[str, _Span] = {}
        """The spans of agents by the ids of their sessions."""

    def export(self) -> list[Json]:
        trace, result = make_trace(self._timeline, 0, self._prompt), self._prompt.result
        main = self._add_agent(self._timeline.session_id, "agentcli", None, "", 0)
        main.end = trace.end
        if result is not None:
            main.attributes |= {
                "agentcli.terminal": result.terminal,
                "error.type": result.terminal if result.is_error else None,
            }
        if self._replies is not None:
            main.attributes |= {
                "gen_ai.input.messages": _messages("user", [TextBlock(self._prompt.text)]),
                "gen_ai.output.messages": _messages("assistant", [TextBlock(self._prompt.answer)]),
            }
        retries: list[TraceRow] = []
        for row in trace.rows:
            agent = self._agent_of(row, main)
            agent.end = max(agent.end, row.end)
            if row.request is not None:
                before = [one for one in retries if one.timeline is row.timeline and one.end <= row.start]
                self._add_chat(row, row.request, agent).events += map(self._describe_event, before)
                retries = [one for one in retries if one not in before]
            elif row.call is not None and row.timeline is not None:
                self._add_call(row, row.call, row.timeline, agent)
            elif row.kind == "retry":
                retries.append(row)
            else:
                agent.events.append(self._describe_event(row))
        for row in retries:
            self._agent_of(row, main).events.append(self._describe_event(row))
        return [self._encode(span) for span in self._spans]

    def _agent_of(self, row: TraceRow, main: _Span) -> _Span:
        return self._agents.get(row.timeline.session_id, main) if row.timeline is not None else main

    def _add(
        self, id: str, parent: str, name: tuple[str, str], start: int, end: int, attributes: dict[str, Any]
    ) -> _Span:
        """`id`: unique in the trace. `name`: of the operation and of its object."""
        kind = _CLIENT if name[0] == "chat" else _INTERNAL
        common = {"gen_ai.operation.name": name[0], "gen_ai.conversation.id": self._timeline.session_id}
        span = _Span(self._hash(8, id), parent, " ".join(name), kind, start, end, {**common, **attributes})
        self._spans.append(span)
        return span

    def _add_agent(self, session: str, name: str, id: str | None, parent: str, start: int) -> _Span:
        attributes = {**_PROVIDER, "gen_ai.agent.name": name, "gen_ai.agent.id": id}
        self._agents[session] = self._add(session, parent, ("invoke_agent", name), start, start, attributes)
        return self._agents[session]

    def _add_chat(self, row: TraceRow, step: RequestStep, agent: _Span) -> _Span:
        usage = step.usage
        attributes: dict[str, Any] = {
            **_PROVIDER,
            "gen_ai.request.model": step.model,
            "gen_ai.request.stream": True,
            "gen_ai.request.max_tokens": step.max_tokens or None,
            "gen_ai.response.id": step.api_id or None,
            "gen_ai.response.finish_reasons": [step.stop_reason] if step.stop_reason else None,
            "gen_ai.response.time_to_first_chunk": None if row.ttft_ms is None else row.ttft_ms / 1000,
            "agentcli.request.purpose": step.purpose,
            "agentcli.request.transition": step.transition or None,
            "error.type": step.outcome.replace(" ", "_") or None,
        }
        if step.is_reported:
            attributes |= {
                "gen_ai.response.model": step.model,
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
                "gen_ai.usage.cache_write.input_tokens": usage.cache_creation_input_tokens,
                "agentcli.cost_usd": step.cost_usd,
            }
        if self._replies is not None and row.timeline is not None:
            reply = self._replies.find(row.timeline, step.message_id)
            attributes["gen_ai.output.messages"] = _messages("assistant", reply, step.stop_reason)
        # A span covers all attempts; the row of a step begins with the last one.
        start = min(row.start, row.end - step.duration_ms) if step.duration_ms else row.start
        id = step.message_id or f"{step.agent} {step.purpose} {step.ended_at}"
        return self._add(id, agent.id, ("chat", step.model), start, row.end, attributes)

    def _add_call(self, row: TraceRow, call: CallStep, timeline: Timeline, agent: _Span) -> None:
        of_server = _SERVER_TOOL.fullmatch(call.name)
        name = of_server[2] if of_server is not None else call.name
        attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function"}
        if of_server is not None:
            attributes |= {"mcp.method.name": "tools/call", "agentcli.mcp.server": of_server[1]}
        if row.failed:
            outcome = call.end.outcome if call.end is not None else "cut off"
            attributes["error.type"] = "tool_error" if outcome == "done" else outcome.replace(" ", "_")
        if self._replies is not None:
            attributes["gen_ai.tool.call.arguments"] = _encode_json(call.input)
            attributes["gen_ai.tool.call.result"] = (
                without_secrets(call.end.result.text) if call.end is not None else ""
            )
        id = f"{timeline.session_id} {call.id}"
        span = self._add(id, agent.id, ("execute_tool", name), row.start, row.end, attributes)
        for asked, answered in row.waits:
            span.events.append((asked, "agentcli.permission.asked", {}))
            if call.answered_at:
                span.events.append((answered, "agentcli.permission.answered", {"agentcli.answer": call.answer}))
        for each in call.agents:
            if (started := timeline.agents.get(each)) is not None and started.session_id:
                self._add_agent(started.session_id, started.name, each, span.id, row.start)

    def _describe_event(self, row: TraceRow) -> tuple[int, str, dict[str, Any]]:
        event, name = row.event, _WORD.sub("_", type(row.event).__name__).lower()
        attributes: dict[str, Any] = {
            "agentcli.text": without_secrets(row.label) if self._replies is not None else None
        }
        match event:
            case ev.RetryScheduled():
                attributes |= {"error.type": event.kind, "http.response.status_code": event.status}
                attributes["agentcli.retry.wait_seconds"] = event.wait_seconds
            case ev.MessageAppended():
                name = event.message.origin.value
        return row.start, f"agentcli.{name}", attributes

    # ----------------------------------------------------------------------------------------------------------- JSON

    def _hash(self, size: int, id: str = "") -> str:
        """An id of so many bytes in hexadecimal digits."""
        parts = "\0".join((self._timeline.session_id, self._prompt.id, id))
        return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[: 2 * size]

    def _encode(self, span: _Span) -> Json:
        made: Json = {
            "traceId": self._hash(16),
            "spanId": span.id,
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": self._nanoseconds(span.start),
            "endTimeUnixNano": self._nanoseconds(span.end),
            "attributes": _attributes(span.attributes),
            "status": {"code": _ERROR} if span.attributes.get("error.type") else {},
            "events": [
                {"timeUnixNano": self._nanoseconds(at), "name": name, "attributes": _attributes(attributes)}
                for at, name, attributes in span.events
            ],
        }
        return {**made, "parentSpanId": span.parent} if span.parent else made

    def _nanoseconds(self, milliseconds: int) -> str:
        zero = datetime.fromisoformat(self._prompt.at) - _START if self._prompt.at else timedelta()
        return str((zero // timedelta(microseconds=1)) * 1000 + milliseconds * 1_000_000)


def _attributes(values: Mapping[str, Any]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}


def _messages(role: str, content: Iterable[Block], finish_reason: str = "") -> str:
    """A message in the form of the conventions, as JSON."""
    parts: list[Json] = []
    for block in content:
        match block:
            case TextBlock(text=text):
                parts.append({"type": "text", "content": text})
            case ThinkingBlock(thinking=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolUseBlock():
                parts.append({"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input})
    message = {"role": role, "parts": parts}
    return _encode_json([{**message, "finish_reason": finish_reason} if finish_reason else message])


def _encode_json(value: Any) -> str:
    return json.dumps(redact_values(value), ensure_ascii=False)
