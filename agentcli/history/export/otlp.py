"""Prompts of a session as OpenTelemetry spans: OTLP JSON, with the names of the GenAI semantic conventions.

A prompt is a trace: `invoke_agent` with `chat` and `execute_tool` below it, and a sub-agent below its call. All ids
come from ids of the session, so that a repeated export is identical and replaces the earlier one. It has no texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from agentcli import __version__
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.history.trace import TraceRow, make_trace
from agentcli.session.timeline import CallStep, PromptStep, RequestStep, Timeline

_INTERNAL, _CLIENT, _ERROR = 1, 3, 2
"""Values of SpanKind and StatusCode."""
_PROVIDER = {"gen_ai.provider.name": "anthropic"}
_SERVER_TOOL = re.compile(r"mcp__(.+?)__(.+)")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def export_prompts(timeline: Timeline, prompts: Iterable[PromptStep]) -> list[Json]:
    """The spans of these prompts. Blocking."""
    return [span for prompt in prompts for span in _Exporter(timeline, prompt).export()]


def wrap_spans(spans: list[Json]) -> Json:
    """An `ExportTraceServiceRequest`."""
    scope = {"name": "agentcli", "version": __version__}
    resource = {"attributes": _attributes({"service.name": "agentcli", "service.version": __version__})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


class _Exporter:
    def __init__(self, timeline: Timeline, prompt: PromptStep) -> None:
        self._timeline = timeline
        self._prompt = prompt
        self._zero = round(datetime.fromisoformat(prompt.at).timestamp() * 1000) if prompt.at else 0
        """Time of the prompt in milliseconds since 1970."""
        self._spans: list[Json] = []
        self._agents: dict[str, Json] = {}
        """The spans of agents by the ids of their sessions."""

    def export(self) -> list[Json]:
        trace, result = make_trace(self._timeline, 0, self._prompt), self._prompt.result
        end = {
            "agentcli.terminal": result.terminal if result is not None else None,
            "error.type": result.terminal if result is not None and result.is_error else None,
        }
        self._add_agent(self._timeline.session_id, "agentcli", "", 0, trace.end, end)
        for row in trace.rows:
            assert row.timeline is not None
            agent = self._agents[row.timeline.session_id]
            # In the background it may go on after its call.
            agent["endTimeUnixNano"] = max(agent["endTimeUnixNano"], self._nanoseconds(row.end), key=int)
            if row.request is not None:
                self._add_chat(row, row.request, agent)
            elif row.call is not None:
                self._add_call(row, row.call, row.timeline, agent)
            else:
                self._add_event(agent, row)
        return self._spans

    def _add(self, id: str, parent: str, operation: str, subject: str, times: tuple[int, int], more: Json) -> Json:
        """`id`: unique in the trace."""
        common = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._timeline.session_id}
        span: Json = {
            "traceId": self._hash(16),
            "spanId": self._hash(8, id),
            "parentSpanId": parent,
            "name": f"{operation} {subject}",
            "kind": _CLIENT if operation == "chat" else _INTERNAL,
            "startTimeUnixNano": self._nanoseconds(times[0]),
            "endTimeUnixNano": self._nanoseconds(times[1]),
            "attributes": _attributes({**common, **more}),
            "status": {"code": _ERROR} if more.get("error.type") else {},
            "events": [],
        }
        self._spans.append(span)
        return span

    def _add_agent(self, session: str, name: str, parent: str, start: int, end: int, more: Json) -> None:
        attributes = {**_PROVIDER, "gen_ai.agent.name": name, **more}
        self._agents[session] = self._add(session, parent, "invoke_agent", name, (start, end), attributes)

    def _add_chat(self, row: TraceRow, step: RequestStep, agent: Json) -> None:
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
        # A span covers all attempts; the row of a step begins with the last one.
        start = min(row.start, row.end - step.duration_ms) if step.duration_ms else row.start
        id = step.message_id or f"{step.agent} {step.purpose} {step.ended_at}"
        self._add(id, agent["spanId"], "chat", step.model, (start, row.end), attributes)

    def _add_call(self, row: TraceRow, call: CallStep, timeline: Timeline, agent: Json) -> None:
        of_server = _SERVER_TOOL.fullmatch(call.name)
        name = of_server[2] if of_server is not None else call.name
        attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call.id, "gen_ai.tool.type": "function"}
        if of_server is not None:
            attributes |= {"mcp.method.name": "tools/call", "agentcli.mcp.server": of_server[1]}
        if row.failed:
            attributes["error.type"] = "tool_error" if call.outcome == "done" else call.outcome.replace(" ", "_")
        id, times = f"{timeline.session_id} {call.id}", (row.start, row.end)
        span = self._add(id, agent["spanId"], "execute_tool", name, times, attributes)
        for asked, answered in row.waits:
            answer = {"agentcli.wait_seconds": (answered - asked) / 1000, "agentcli.answer": call.answer or None}
            span["events"].append(self._event(asked, "permission_asked", answer))
        for each in call.agents:
            started = timeline.agents[each]
            more = {"gen_ai.agent.id": each}
            self._add_agent(started.session_id, started.name, span["spanId"], row.start, row.end, more)

    def _add_event(self, agent: Json, row: TraceRow) -> None:
        event, name = row.event, _WORD.sub("_", type(row.event).__name__).lower()
        attributes: dict[str, Any] = {}
        if isinstance(event, ev.RetryScheduled):
            attributes = {"error.type": event.kind, "http.response.status_code": event.status}
            attributes["agentcli.retry.wait_seconds"] = event.wait_seconds
        elif isinstance(event, ev.MessageAppended):
            name = event.message.origin.value
        agent["events"].append(self._event(row.start, name, attributes))

    def _event(self, at: int, name: str, attributes: Json) -> Json:
        time = self._nanoseconds(at)
        return {"timeUnixNano": time, "name": f"agentcli.{name}", "attributes": _attributes(attributes)}

    def _hash(self, size: int, id: str = "") -> str:
        """An id of so many bytes in hexadecimal digits."""
        parts = "\0".join((self._timeline.session_id, self._prompt.id, id))
        return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[: 2 * size]

    def _nanoseconds(self, milliseconds: int) -> str:
        return str((self._zero + milliseconds) * 1_000_000)


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
