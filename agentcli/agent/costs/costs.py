"""`engine.costs`: what the conversation has cost, what it was spent on, and the budget, with the question at its cap.

Counted from the events of a conversation. What responses report is exact; the cost of a tool is an attribution, because
the API bills whole requests. A result is in every request from the one after its call until it is cleared or compacted
away, and takes its share of the input of each. The sizes of results are estimates.

The question is asked before a request, never during one: the current reply is finished, the log is complete, and after
a raise the work continues where it was.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentcli.agent.costs.cache_watch import CacheWatch
from agentcli.agent.ports import PriceOf
from agentcli.agent.profile import price_of
from agentcli.context.estimate import block_tokens
from agentcli.core import events as ev
from agentcli.core.aio import Aborted, AbortReason, AbortSignal
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Json, Message, ToolResultBlock
from agentcli.core.permission import Answer
from agentcli.core.space_saving import RunningValue
from agentcli.core.text.format import money
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import CacheLosses, ModelTotals, Totals, Usage, usage_row
from agentcli.providers.catalog import Catalog

if TYPE_CHECKING:
    from agentcli.agent.session import Session


_TITLE_LIMIT = 80
_MAIN = "main"
_UNKNOWN = "(unknown)"


@frozen
class SubmissionSpending:
    title: str
    """Beginning of the prompt, for display."""
    spent: ModelTotals = ModelTotals()


@frozen
class ToolSpending:
    calls: int = 0
    result_tokens: int = 0
    """Tokens of all its results, each counted once."""
    in_context: int = 0
    """Tokens of the results that the next request still contains."""
    sent_tokens: int = 0
    """Tokens of its results times the number of requests that contained them."""
    cost_usd: float = 0.0
    unpriced: bool = False
    """Some requests with these results had no known price: the cost is incomplete."""


class Spending:
    def __init__(
        self,
        price: PriceOf,
        shown: Callable[[], Sequence[Message]] = tuple,
        request_tokens: Callable[[], int] = lambda: 0,
    ) -> None:
        """`shown`: gives the messages that a request shows now. `request_tokens`: estimate of the request that was just
        answered."""
        self._price = price
        self._shown = shown
        self._request_tokens = request_tokens
        self._scale = 1.0
        """Measured per estimated tokens of the last request, at most 1: limits the sizes to what it measured."""
        self._names: dict[str, str] = {}
        """Tool names by call id."""
        self._sizes: dict[int, tuple[ToolResultBlock, int]] = {}
        """Results and their tokens, by object id."""
        self._results = RunningValue[Message, dict[str, int]](dict, self._add_results)
        """Tokens of the results that a request shows, by tool."""
        self._tools: dict[str, ToolSpending] = {}
        self._unattributed: list[tuple[ev.UsageReported, Sequence[Message], float]] = []
        """Answered requests whose cost is not attributed to tools yet: messages, and scale when it was answered."""
        self._is_open = False
        """Whether the costs belong to the last of the submissions."""
        self.submissions: list[SubmissionSpending] = []
        self.by_agent = Totals()
        self.by_purpose = Totals()
        self.steps = StepSavings(price)
        """Savings by the steps that free space in old content."""

    @property
    def tools(self) -> Mapping[str, ToolSpending]:
        """Spending per tool, most expensive first."""
        self._attribute_waiting()
        in_context = self._results.of(self._shown())
        rows = {
            name: replace(
                row,
                result_tokens=round(row.result_tokens * self._scale),
                in_context=round(in_context.get(name, 0) * self._scale),
            )
            for name, row in self._tools.items()
        }
        return dict(sorted(rows.items(), key=lambda row: (-row[1].cost_usd, -row[1].sent_tokens, row[0])))

    def take(self, event: ev.Event) -> None:
        """Count an event of the conversation."""
        self.steps.take(event)
        match event:
            case ev.UsageReported():
                self._count(event)
            case _ if event.agent:
                pass  # Sub-agents have contexts of their own.
            case ev.SessionStarted():
                self._is_open = False
            case ev.ReplyStarted():
                # Not with the usage of the reply before: the next request would wait for it.
                self._attribute_waiting()
            case ev.ContextCompacted():
                self._sizes.clear()
            case ev.MessageAppended(message=message) if not message.is_copy:
                if message.is_prompt:
                    self._begin(plain_line(message.text, _TITLE_LIMIT) or "(no text)")
                self._names.update((use.id, use.name) for use in message.tool_uses)
                for result in message.tool_results:
                    tool = self._names.get(result.tool_use_id, _UNKNOWN)
                    row = self._tools.get(tool, ToolSpending())
                    tokens = row.result_tokens + block_tokens(result)
                    self._tools[tool] = replace(row, calls=row.calls + 1, result_tokens=tokens)

    def _begin(self, title: str) -> None:
        self.submissions.append(SubmissionSpending(title))
        self._is_open = True

    def _count(self, event: ev.UsageReported) -> None:
        usage, cost = event.usage, event.cost_usd
        self.by_agent = self.by_agent.adding(event.agent or _MAIN, usage, cost)
        self.by_purpose = self.by_purpose.adding(event.purpose, usage, cost)
        if not self._is_open:
            self._begin("(compaction)" if event.purpose == "compact" else "(between prompts)")
        last = self.submissions[-1]
        self.submissions[-1] = replace(last, spent=_add(last.spent, usage, cost))
        if event.purpose == "turn" and not event.agent and usage.prompt_tokens:
            # If the server counts fewer tokens than estimated, every part is scaled down alike.
            scale = min(1.0, usage.prompt_tokens / max(1, self._request_tokens()))
            self._unattributed.append((event, self._shown(), scale))

    # --------------------------------------------------------------------------------------------------- attribution

    def _attribute_waiting(self) -> None:
        waiting, self._unattributed = self._unattributed, []
        for event, shown, scale in waiting:
            self._attribute(event, shown, scale)

    def _attribute(self, event: ev.UsageReported, shown: Sequence[Message], scale: float) -> None:
        results = self._results.of(shown)
        carried = sum(results.values())
        # Results cannot exceed the whole request, whatever their estimates add up to.
        scale = min(scale, event.usage.prompt_tokens / carried) if carried else scale
        self._scale = scale
        # Parts are priced within the whole request: prices may rise with the size of the prompt.
        cost = self._price(event.model, replace(event.usage, output_tokens=0, web_search_requests=0)) or 0.0
        is_priced = event.cost_usd is not None
        for tool, tokens in results.items():
            row = self._tools.get(tool, ToolSpending())
            self._tools[tool] = replace(
                row,
                sent_tokens=row.sent_tokens + round(tokens * scale),
                cost_usd=row.cost_usd + (cost * tokens * scale / event.usage.prompt_tokens if is_priced else 0.0),
                unpriced=row.unpriced or not is_priced,
            )

    def _add_results(self, tokens: dict[str, int], message: Message) -> dict[str, int]:
        """Add the results in a message to the estimated tokens by tool."""
        self._names.update((use.id, use.name) for use in message.tool_uses)
        for result in message.tool_results:
            if id(result) not in self._sizes:
                self._sizes[id(result)] = (result, block_tokens(result))
            tool = self._names.get(result.tool_use_id, _UNKNOWN)
            tokens[tool] = tokens.get(tool, 0) + self._sizes[id(result)][1]
        return tokens


def _add(spent: ModelTotals, usage: Usage, cost: float | None) -> ModelTotals:
    return ModelTotals(
        usage=spent.usage + usage,
        cost_usd=spent.cost_usd + (cost or 0.0),
        requests=spent.requests + 1,
        unpriced_requests=spent.unpriced_requests + (cost is None),
    )


class StepSavings:
    def __init__(self, price: PriceOf) -> None:
        self._price = price
        self._left_out: dict[str, int] = {}
        """Tokens that requests omit, by the target of the edit that removed them."""
        self._is_new = False
        """A step has removed something since the last response."""
        self._response: tuple[str, Usage, bool] | None = None
        """The last response: model, usage, and whether it was the first after a change."""
        self._rebilled = CacheLosses()
        self.requests = 0
        """Number of requests that were smaller because of the steps."""
        self.saved_tokens = 0
        self.saved_usd = 0.0
        self.priced = True
        """False: some prices are unknown, so the dollars are incomplete."""

    @property
    def rebilled_tokens(self) -> int:
        return self._rebilled.tokens

    @property
    def rebilled_usd(self) -> float:
        return self._rebilled.cost_usd(self._price) or 0.0

    def take(self, event: ev.Event) -> None:
        if event.agent:
            return
        match event:
            case ev.ContextEdited():
                for edit in event.edits:
                    self._left_out.pop(edit["target"], None)
                    if event.is_by_step and edit.get("freed"):
                        self._left_out[edit["target"]] = edit["freed"]
                self._is_new = self._is_new or event.is_by_step
            case ev.ContextCompacted():
                self._left_out.clear()
            case ev.UsageReported(purpose="turn") if event.usage.prompt_tokens:
                self._count(event.model, event.usage)
            case ev.PrefixBroken() if event.rebilled_tokens and self._response is not None and self._response[2]:
                self._lose(event.rebilled_tokens, *self._response[:2])

    def _count(self, model: str, usage: Usage) -> None:
        self._response, self._is_new = (model, usage, self._is_new), False
        tokens = sum(self._left_out.values())
        if not tokens:
            return
        self.requests += 1
        self.saved_tokens += tokens
        larger = replace(usage, cache_read_input_tokens=usage.cache_read_input_tokens + tokens)
        before, after = self._price(model, larger), self._price(model, usage)
        if before is None or after is None:
            self.priced = False
        else:
            self.saved_usd += before - after

    def _lose(self, tokens: int, model: str, usage: Usage) -> None:
        long_lived = usage.cache_write_1h_tokens > 0
        if self._price(model, usage) is None:
            self.priced = False
        self._rebilled = self._rebilled.adding(
            model, tokens, long_lived=long_lived, broken=True, prompt=usage.prompt_tokens, fast=usage.fast
        )


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

    @property
    def is_nearly_spent(self) -> bool:
        """Whether only what the user waits for may still be sent."""
        return self.is_spent or (self.cap is not None and self.totals().cost_usd >= self.cap * WARN_AT)

    def take_warning(self) -> str | None:
        """A warning when most of the budget is spent, once."""
        totals = self.totals()
        if self.cap is None or self._warned or self.is_spent or not self.is_nearly_spent:
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
        more = f"/budget {suggest_cap(self.cap or 0.0, totals.cost_usd):g}" if totals.fully_priced else "/budget off"
        return f"{text}. Nothing is lost: {more} raises it, /budget off removes it; then send a prompt."


def suggest_cap(cap: float, spent: float) -> float:
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
        answer = await asking.ask(session.emit) if asking is not None else None
        session.note_answer(answer)
        said = _read_answer(answer, text)
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
    offer = suggest_cap(cap, totals.cost_usd)
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
