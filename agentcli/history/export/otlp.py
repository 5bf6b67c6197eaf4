"""Prompts of a session as OpenTelemetry spans: OTLP JSON, with the names of the GenAI semantic conventions.

A prompt is a trace: `invoke_agent` with `chat` and `execute_tool` below it, and a sub-agent below its call. All ids
come from ids of the session, so that a repeated export is identical and replaces the earlier one. Texts are left out
unless they are asked for, and then without secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from agentcli import __version__
from agentcli.core import events as ev
from agentcli.core.frozen import slotted
from agentcli.core.messages import Json, Message, TextBlock, ThinkingBlock, ToolUseBlock
from agentcli.core.text.secret_text import redact_values, without_secrets
from agentcli.history.trace import Trace, TraceRow, make_trace
from agentcli.session.load import load_session
from agentcli.session.timeline import PromptStep, RequestStep, Timeline

PROVIDER = "anthropic"
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2
"""Values of SpanKind and StatusCode."""
_OF_SERVERS = "mcp__"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_START = datetime(1970, 1, 1, tzinfo=UTC)


def export_prompts(timeline: Timeline, prompts: Iterable[PromptStep], *, contents: bool = False) -> list[Json]:
    """The spans of these prompts. `contents`: with texts. Blocking. Raises `OSError`."""
    replies = _Replies() if contents else None
    return [
        span for prompt in prompts for span in _Exporter(timeline, make_trace(timeline, 0, prompt), replies).spans()
    ]


def wrap_spans(spans: list[Json]) -> Json:
    """An `ExportTraceServiceRequest`."""
    scope = {"name": "agentcli", "version": __version__}
    resource = {"attributes": _attributes({"service.name": "agentcli", "service.version": __version__})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


class _Replies:
    """The replies of session files by their ids. Each file is read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Message]] = {}

    def find(self, timeline: Timeline, message_id: str) -> Message | None:
        if (known := self._known.get(timeline.session_id)) is None:
            messages = load_session(timeline.path, with_history=False).messages
            known = self._known[timeline.session_id] = {message.id: message for message in messages}
        return known.get(message_id)


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
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """Time, name and attributes."""


class _Exporter:
    def __init__(self, timeline: Timeline, trace: Trace, replies: _Replies | None) -> None:
        self._timeline = timeline
        self._trace = trace
        self._replies = replies
        """None: texts are left out."""
        self._spans: list[_Span] = []
        self._agents: dict[str, _Span] = {}
        """The spans of agents by the ids of their sessions."""

    def spans(self) -> list[Json]:
        trace, prompt = self._trace, self._trace.prompt
        main = self._add_agent(self._timeline.session_id, "", "agentcli", "", 0)
        main.end = trace.end
        if prompt.result is not None:
            main.attributes["agentcli.terminal"] = prompt.result.terminal
            if prompt.result.is_error:
                main.attributes["error.type"] = prompt.result.terminal
        if self._replies is not None:
            main.attributes["gen_ai.input.messages"] = _messages("user", [_text_part(prompt.text)])
            main.attributes["gen_ai.output.messages"] = _messages("assistant", [_text_part(prompt.answer)])
        retries: list[TraceRow] = []
        for row in trace.rows:
            agent = self._agent_of(row, main)
            agent.end = max(agent.end, row.end)
            if row.request is not None:
                before = [one for one in retries if one.timeline is row.timeline and one.end <= row.start]
                self._add_chat(row, row.request, agent).events += map(self._describe_event, before)
                retries = [one for one in retries if one not in before]
            elif row.call is not None:
                self._add_call(row, agent)
            elif row.kind == "retry":
                retries.append(row)
            else:
                agent.events.append(self._describe_event(row))
        for row in retries:
            self._agent_of(row, main).events.append(self._describe_event(row))
        return [self._encode(span) for span in self._spans]

    def _agent_of(self, row: TraceRow, main: _Span) -> _Span:
        return self._agents.get(row.timeline.session_id, main) if row.timeline is not None else main

    def _id(self, *parts: str) -> str:
        return _hash(8, self._timeline.session_id, self._trace.prompt.id, *parts)

    def _add(self, span: _Span) -> _Span:
        span.attributes["gen_ai.conversation.id"] = self._timeline.session_id
        self._spans.append(span)
        return span

    def _add_agent(self, session: str, id: str, name: str, parent: str, start: int) -> _Span:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.agent.name": name,
        }
        if id:
            attributes["gen_ai.agent.id"] = id
        span = _Span(self._id("agent", session), parent, f"invoke_agent {name}", _INTERNAL, start, start, attributes)
        self._agents[session] = span
        return self._add(span)

    def _add_chat(self, row: TraceRow, step: RequestStep, agent: _Span) -> _Span:
        session = row.timeline.session_id if row.timeline is not None else step.agent
        # A span covers all attempts; the row of a step begins with the last one.
        start = min(row.start, row.end - step.duration_ms) if step.duration_ms else row.start
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": step.model,
            "gen_ai.request.stream": True,
            "agentcli.request.purpose": step.purpose,
            "agentcli.request.transition": step.transition or None,
            "gen_ai.request.max_tokens": step.max_tokens or None,
            "gen_ai.response.id": step.api_id or None,
            "gen_ai.response.finish_reasons": [step.stop_reason] if step.stop_reason else None,
            "error.type": step.outcome.replace(" ", "_") or None,
        }
        if step.is_reported:
            usage = step.usage
            attributes |= {
                "gen_ai.response.model": step.model,
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
                "gen_ai.usage.cache_write.input_tokens": usage.cache_creation_input_tokens,
                "agentcli.cost_usd": step.cost_usd,
            }
        if row.ttft_ms is not None:
            attributes["gen_ai.response.time_to_first_chunk"] = row.ttft_ms / 1000
        if self._replies is not None and row.timeline is not None:
            reply = self._replies.find(row.timeline, step.message_id)
            if reply is not None:
                attributes["gen_ai.output.messages"] = _messages("assistant", _parts(reply), step.stop_reason)
        id = self._id("request", session, step.message_id or f"{step.purpose} {step.ended_at}")
        return self._add(_Span(id, agent.id, f"chat {step.model}", _CLIENT, start, row.end, attributes))

    def _add_call(self, row: TraceRow, agent: _Span) -> None:
        call, timeline = row.call, row.timeline
        assert call is not None
        assert timeline is not None
        server, _dashes, tool = call.name.removeprefix(_OF_SERVERS).partition("__")
        is_of_server = call.name.startswith(_OF_SERVERS) and bool(tool)
        name = tool if is_of_server else call.name
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if is_of_server:
            attributes |= {"mcp.method.name": "tools/call", "agentcli.mcp.server": server}
        if row.failed:
            outcome = call.end.outcome if call.end is not None else "cut off"
            attributes["error.type"] = "tool_error" if outcome == "done" else outcome.replace(" ", "_")
        if self._replies is not None:
            attributes["gen_ai.tool.call.arguments"] = _encode_json(call.input)
            if call.end is not None:
                attributes["gen_ai.tool.call.result"] = without_secrets(call.end.result.text)
        id = self._id("call", timeline.session_id, call.id)
        span = self._add(_Span(id, agent.id, f"execute_tool {name}", _INTERNAL, row.start, row.end, attributes))
        for asked, answered in row.waits:
            span.events.append((asked, "agentcli.permission.asked", {}))
            if call.answered_at:
                span.events.append((answered, "agentcli.permission.answered", {"agentcli.answer": call.answer}))
        for each in call.agents:
            if (started := timeline.agents.get(each)) is not None and started.session_id:
                self._add_agent(started.session_id, each, started.name, span.id, row.start)

    def _describe_event(self, row: TraceRow) -> tuple[int, str, dict[str, Any]]:
        event, attributes = row.event, dict[str, Any]()
        name = _WORD.sub("_", type(event).__name__).lower()
        if self._replies is not None:
            attributes["agentcli.text"] = without_secrets(row.label)
        match event:
            case ev.RetryScheduled():
                attributes["error.type"] = event.kind
                attributes["http.response.status_code"] = event.status
                attributes["agentcli.retry.wait_seconds"] = event.wait_seconds
            case ev.MessageAppended():
                name = event.message.origin.value
        return row.start, f"agentcli.{name}", attributes

    # ----------------------------------------------------------------------------------------------------------- JSON

    def _encode(self, span: _Span) -> Json:
        made: Json = {
            "traceId": _hash(16, self._timeline.session_id, self._trace.prompt.id),
            "spanId": span.id,
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": self._nanoseconds(span.start),
            "endTimeUnixNano": self._nanoseconds(max(span.start, span.end)),
            "attributes": _attributes(span.attributes),
            "status": {"code": _ERROR} if span.attributes.get("error.type") else {},
        }
        if span.parent:
            made["parentSpanId"] = span.parent
        if span.events:
            made["events"] = [
                {"timeUnixNano": self._nanoseconds(at), "name": name, "attributes": _attributes(attributes)}
                for at, name, attributes in span.events
            ]
        return made

    def _nanoseconds(self, milliseconds: int) -> str:
        at = self._trace.prompt.at
        zero = datetime.fromisoformat(at) - _START if at else timedelta()
        return str((zero // timedelta(microseconds=1)) * 1000 + milliseconds * 1_000_000)


def _hash(size: int, *parts: str) -> str:
    """An id of so many bytes in hexadecimal digits."""
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[: 2 * size]


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


def _messages(role: str, parts: Sequence[Json], finish_reason: str = "") -> str:
    """Messages of one role in the form of the conventions, as JSON."""
    message = {"role": role, "parts": list(parts)}
    return _encode_json([{**message, "finish_reason": finish_reason} if finish_reason else message])


def _text_part(text: str) -> Json:
    return {"type": "text", "content": text}


def _parts(message: Message) -> list[Json]:
    parts: list[Json] = []
    for block in message.content:
        match block:
            case TextBlock(text=text):
                parts.append(_text_part(text))
            case ThinkingBlock(thinking=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolUseBlock():
                parts.append({"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input})
    return parts


def _encode_json(value: Any) -> str:
    return json.dumps(redact_values(value), ensure_ascii=False)
