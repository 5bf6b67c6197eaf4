"""The account of a submission: totals, denials and the last answer, for its one `Result`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from agentcli.agent.loop_state import EndReason
from agentcli.core import events as ev
from agentcli.core.answers import AnswerTracker
from agentcli.core.events import is_of_subagent
from agentcli.core.frozen import slotted
from agentcli.core.ids import Clock
from agentcli.core.messages import Json, Origin
from agentcli.core.usage import ModelTotals, Totals, Usage, usage_row
from agentcli.providers.catalog import Catalog

_GRACEFUL = {EndReason.COMPLETED.value, EndReason.HOOK_STOPPED.value, EndReason.STOP_HOOK_PREVENTED.value}
_NO_OUTPUT = {*_GRACEFUL, EndReason.NO_STRUCTURED_OUTPUT.value}
"""Terminals after which a requested structured output can be missing."""
_SUBTYPES: Mapping[str, str] = {
    EndReason.MAX_TURNS.value: "error_max_turns",
    EndReason.MAX_BUDGET_USD.value: "error_max_budget_usd",
}


@slotted
class Account:
    """One per submission; the engine passes it every event before a consumer sees it."""

    clock: Clock
    wants_structured: bool = False
    began: float = 0.0
    usage: Usage = Usage()
    api_duration_ms: int = 0
    text: str = ""
    earlier: str = ""
    """Text so far of an answer that the next reply continues or extends."""
    answer: AnswerTracker = field(default_factory=AnswerTracker)
    denials: list[Json] = field(default_factory=list)
    ended: ev.LoopEnded | None = None
    waited: float = 0.0
    """Seconds during which the user was asked."""
    asked: float = 0.0
    """Since when the user is asked, while `questions` are open."""
    questions: set[str] = field(default_factory=set)

    def take(self, event: ev.Event) -> None:
        self._take_question(event)
        match event:
            case ev.UsageReported():
                self.usage += event.usage
                self.api_duration_ms += event.duration_ms
            case ev.PermissionDenied():
                denial = {"tool_name": event.name, "tool_use_id": event.tool_use_id, "tool_input": event.input}
                self.denials.append(denial)
            case _ if is_of_subagent(event):
                pass
            case ev.ReplyStarted():
                self.text = self.earlier
            case ev.MessageAppended(message=message) if not message.is_copy:
                if message.origin is Origin.REPLY:
                    self.text = self.answer.joined(self.earlier, message.text)
                self.answer.take(message)
                self.earlier = self.text if self.answer.unfinished or self.answer.extends else ""
            case ev.NoticeRaised(code="command") if event.level != "error":
                self.text = f"{self.text}\n{event.text}" if self.text else event.text
            case ev.LoopEnded():
                self.ended = event

    def _take_question(self, event: ev.Event) -> None:
        was_open = bool(self.questions)
        match event:
            case ev.PermissionRequested() | ev.CompactionProposed():
                self.questions.add(event.request_id)
            case ev.PermissionResolved():
                self.questions.discard(event.request_id)
            case ev.ContextCompacted() | ev.CompactionFailed() | ev.LoopEnded() if not is_of_subagent(event):
                self.questions.clear()
            case _:
                return
        if self.questions and not was_open:
            self.asked = self.clock.monotonic()
        elif was_open and not self.questions:
            self.waited += self.clock.monotonic() - self.asked

    def result(self, totals: Totals, catalog: Catalog, session_id: str, uuid: str) -> ev.Result:
        ended = self.ended or ev.LoopEnded(
            terminal=EndReason.MODEL_ERROR.value, turns=0, text="The run ended unexpectedly."
        )
        subtype, is_error = self._verdict(ended)
        text = self.text
        if ended.final is not None:
            text = json.dumps(ended.final, ensure_ascii=False)
        return ev.Result(
            subtype=subtype,
            is_error=is_error,
            terminal=ended.terminal,
            text=text,
            errors=[ended.text or ended.terminal] if is_error else [],
            turns=ended.turns,
            duration_ms=int((self.clock.monotonic() - self.began) * 1000),
            waited_ms=int(self.waited * 1000),
            api_duration_ms=self.api_duration_ms,
            usage=self.usage,
            total_cost_usd=totals.cost_usd,
            fully_priced=totals.fully_priced,
            model_usage=model_usage(totals, catalog),
            permission_denials=self.denials,
            session_id=session_id,
            uuid=uuid,
            stop_reason=ended.stop_reason,
            api_error_status=ended.status,
            retryable=ended.retryable,
            structured_output=ended.final,
        )

    def _verdict(self, ended: ev.LoopEnded) -> tuple[str, bool]:
        if self.wants_structured and ended.final is None and ended.terminal in _NO_OUTPUT:
            return "error_max_structured_output_retries", True
        if ended.terminal in _GRACEFUL:
            return "success", False
        return _SUBTYPES.get(ended.terminal, "error_during_execution"), True


def model_usage(totals: Totals, catalog: Catalog) -> dict[str, Any]:
    """Usage per model, as `modelUsage` of results and session files."""
    rows = {}
    for model, used in totals.by_model.items():
        info = catalog.get(model)
        rows[model] = {
            **usage_row(used.usage, None if used.unpriced_requests else used.cost_usd),
            "contextWindow": info.context_window,
            "maxOutputTokens": info.max_output,
        }
    return rows


def totals_from(spent: Iterable[Json]) -> Totals:
    """Totals from several stored `model_usage` values, one per process."""
    totals = Totals()
    for used in spent:
        rows = {model: _row(row) for model, row in used.items() if isinstance(row, dict)}
        totals = totals.together(Totals(rows))
    return totals


def _row(row: Json) -> ModelTotals:
    usage = Usage(
        input_tokens=_count(row.get("inputTokens")),
        output_tokens=_count(row.get("outputTokens")),
        cache_read_input_tokens=_count(row.get("cacheReadInputTokens")),
        cache_write_5m_tokens=_count(row.get("cacheCreationInputTokens")),
        web_search_requests=_count(row.get("webSearchRequests")),
    )
    cost = row.get("costUSD")
    if not isinstance(cost, int | float) or cost < 0:
        return ModelTotals(usage, unpriced_requests=1)
    return ModelTotals(usage, float(cost))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
