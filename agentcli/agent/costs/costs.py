"""`engine.costs`: what the conversation has cost, what it was spent on, and the budget, with the question at its cap.

The question is asked before a request, never during one: the current reply is finished, the log is complete, and after
a raise the work continues where it was. `Account` sums up one submission for its `Result`.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from agentcli.agent.costs.cache_watch import CacheWatch
from agentcli.agent.costs.spending import Spending
from agentcli.agent.loop_state import EndReason
from agentcli.agent.profile import price_of
from agentcli.core import events as ev
from agentcli.core.abort import Aborted, AbortReason, AbortSignal
from agentcli.core.events import is_of_subagent
from agentcli.core.frozen import slotted
from agentcli.core.ids import Clock
from agentcli.core.messages import AnswerTracker, Json, Origin
from agentcli.core.permission import Answer
from agentcli.core.text.format import money
from agentcli.core.usage import CacheLosses, ModelTotals, Totals, Usage, usage_row
from agentcli.providers.catalog import Catalog

if TYPE_CHECKING:
    from agentcli.agent.session import Session


class Costs:
    """`earlier`: totals of a resumed session before this process; they do not count towards the budget."""

    def __init__(
        self,
        catalog: Catalog,
        watch: CacheWatch,
        spending: Spending,
        budget: float | None = None,
        earlier: Totals | None = None,
        *,
        interactive: bool = False,
        charged: tuple[Costs, str] | None = None,
    ) -> None:
        """`charged`: for a sub-agent, the costs of the engine that started it, whose budget applies, and its own id
        there."""
        self._catalog = catalog
        self._watch = watch
        self._charged = charged
        self.totals: Totals = Totals()
        """Totals since the process started."""
        own = Budget(budget, lambda: self.totals, interactive=interactive)
        self.budget: Budget = own if charged is None else charged[0].budget
        """That of the main conversation, whose totals include its sub-agents."""
        self.earlier = earlier or Totals()
        self.spending = spending
        """What the totals were spent on: per submission, agent, purpose and tool."""

    @property
    def session_totals(self) -> Totals:
        """Totals of the whole session, including the time before it was resumed."""
        return self.totals.together(self.earlier)

    @property
    def cache_losses(self) -> CacheLosses:
        """Requests of this process that could not use the prompt cache, and the tokens billed for that."""
        return self._watch.losses

    @property
    def cache_losses_usd(self) -> float | None:
        """Extra cost of `cache_losses` over reading from the cache, in dollars; None if a price is unknown."""
        return self.cache_losses.cost_usd(price_of(self._catalog))

    def take(self, event: ev.Event) -> None:
        """Count an event of the conversation."""
        self.spending.take(event)
        if isinstance(event, ev.UsageReported):
            self.totals = self.totals.adding(event.model, event.usage, event.cost_usd)
            if self._charged is not None:
                parent, agent = self._charged
                parent.take(event if event.agent else replace(event, agent=agent))


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


WARN_AT = 0.8
"""Share of the budget at which the user is warned, once."""
STOP = "Stop here"
LIFT = "Continue without a budget"
_AMOUNT = re.compile(r"\$?\s*(\d{0,9}(?:\.\d{0,6})?)\s*(?:usd|dollars?|\$)?", re.IGNORECASE)


class Budget:
    """The most that a conversation may cost in this process, and whether the user has been warned."""

    def __init__(self, cap: float | None, totals: Callable[[], Totals], *, interactive: bool = False) -> None:
        self.cap = cap
        """The limit in dollars; None: no limit."""
        self.totals = totals
        self._interactive = interactive
        self.asking = asyncio.Lock()
        """Held while the user is asked: several agents may reach the budget at the same time."""
        self._warned = False

    def set(self, cap: float | None) -> None:
        """Set the limit in dollars; None: no limit. A new limit warns again."""
        self.cap = cap
        self._warned = False

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be sent. An unknown cost counts as over the budget, never as zero."""
        totals = self.totals()
        return self.cap is not None and (totals.cost_usd >= self.cap or not totals.fully_priced)

    def take_warning(self) -> str | None:
        """A warning when most of the budget is spent, once."""
        totals = self.totals()
        if self.cap is None or self._warned or self.is_spent or totals.cost_usd < self.cap * WARN_AT:
            return None
        self._warned = True
        then = "you are asked whether to continue" if self._interactive else "the run stops"
        return f"{money(totals.cost_usd)} of the budget of {money(self.cap)} is spent. At the budget {then}."

    @property
    def reason(self) -> str:
        """Why nothing more is sent."""
        totals = self.totals()
        if totals.fully_priced:
            return f"Reached maximum budget (${self.cap or 0:g})"
        unpriced = ", ".join(name for name, used in totals.by_model.items() if used.unpriced_requests)
        return (
            f"The price of {unpriced} is unknown, so the budget of {money(self.cap or 0)} cannot be enforced. "
            'Set its price in the settings ("models") or leave the budget out.'
        )

    @property
    def text(self) -> str:
        """Why nothing more is sent, and what to do."""
        text, totals = self.reason, self.totals()
        if not self._interactive:
            return text
        more = f"/budget {raised(self.cap or 0.0, totals.cost_usd):g}" if totals.fully_priced else "/budget off"
        return f"{text}. Nothing is lost: {more} raises it, /budget off removes it; then send a prompt."


def raised(cap: float, spent: float) -> float:
    """A new limit to offer: twice the old one, and in any case more than what is spent; in whole cents."""
    return math.ceil(max(cap * 2, spent * 1.2) * 100 - 1e-6) / 100


async def ask_about_budget(session: Session, signal: AbortSignal) -> None:
    """Before a request: when the budget is spent, ask the user; abort the submission unless they raise it."""
    budget = session.costs.budget
    if not budget.is_spent or signal.aborted:
        return
    try:
        await signal.acquire(budget.asking)
    except Aborted:
        return
    try:
        await _raise_or_stop(session, budget, signal)
    finally:
        budget.asking.release()
    if budget.is_spent:
        session.abort(AbortReason.BUDGET)


async def _raise_or_stop(session: Session, budget: Budget, signal: AbortSignal) -> None:
    """Let the user raise, lift or keep the budget."""
    problem = ""
    while budget.is_spent:
        offer, question = _budget_question(budget, problem)
        text = question["question"]
        shown = {"kind": "questions", "questions": [question], "other": "Another amount like $5, or off"}
        asking = session.question(text, text, shown, {"questions": [question]}, signal)
        said = _read_answer(await asking.ask(session.emit), text) if asking is not None else ""
        if not said or said.lower() in (STOP.lower(), "stop", "no"):
            return
        wanted = offer if said == question["options"][0]["label"] else dollars(said)
        if said == LIFT or said.lower() in ("off", "none"):
            budget.set(None)
        elif wanted is None:
            problem = f"“{said[:40]}” is not an amount in dollars."
        elif wanted <= budget.totals().cost_usd:
            problem = f"{money(wanted)} is not more than you have spent."
        else:
            budget.set(wanted)


def _budget_question(budget: Budget, problem: str) -> tuple[float, Json]:
    """The limit to offer in dollars, and the question."""
    totals, cap = budget.totals(), budget.cap or 0.0
    offer = raised(cap, totals.cost_usd)
    if totals.fully_priced:
        text = f"The budget of {money(cap)} is spent ({money(totals.cost_usd)})."
        go_on, about = f"Raise it to {money(offer)} and continue", "The task continues."
    else:
        text, go_on, about = budget.reason, LIFT, "Further costs have no limit."
    options = [
        {"label": go_on, "description": about},
        {"label": STOP, "description": "Nothing is lost: a later prompt can continue."},
    ]
    asked = f"{problem} {text}".strip()
    return offer, {"question": asked, "header": "Budget", "options": options, "multiSelect": False}


def _read_answer(answer: Answer | None, question: str) -> str:
    if answer is None or answer.behavior != "allow":
        return ""
    answers = (answer.updated_input or {}).get("answers")
    return str(answers.get(question, "")).strip() if isinstance(answers, dict) else ""


def dollars(text: str) -> float | None:
    """Parse an amount as people write it: `5`, `$0.50`, `2 dollars`; None for anything else, and for zero."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or not any(character.isdigit() for character in match[1]):
        return None
    amount = float(match[1])
    return amount if amount > 0 and math.isfinite(amount) else None
