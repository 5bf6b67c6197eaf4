"""What money is spent on: per submission, agent, purpose and tool; and the budget.

Counted from the events of a conversation. What responses report is exact; the cost of a tool is an attribution, because
the API bills whole requests. A result is in every request from the one after its call until it is cleared or compacted
away: the first time it costs the price of new tokens, each further time the price of old ones, mostly read from the
cache. The sizes of results are estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentcli.agent.ports import PriceOf
from agentcli.context.edits import block_id
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.core import events as ev
from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.messages import Json, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import CacheLosses, ModelTotals, Totals, Usage

_TITLE_LIMIT = 80
_MAIN = "main"


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


@slotted
class _Held:
    """A tool result that requests contain."""

    tool: str
    whole: int
    shown: int
    """Size in tokens after edits to this result."""
    request: int
    """Number of the first request that contains it."""
    hidden: bool = False
    """It is part of a span that a collapse summary replaces."""

    @property
    def tokens(self) -> int:
        return 0 if self.hidden else self.shown


@slotted
class _Carried:
    """Tokens of a tool's results in the next request: all of them, and those contained for the first time."""

    tokens: int = 0
    new: int = 0

    def add(self, held: _Held, request: int, sign: int = 1) -> None:
        self.tokens += sign * held.tokens
        if held.request >= request:
            self.new += sign * held.tokens


class Spending:
    def __init__(
        self,
        price: PriceOf,
        shown: Callable[[], Sequence[Message]] = tuple,
        density: Callable[[], float] = lambda: 1.0,
        request_tokens: Callable[[], int] = lambda: 0,
    ) -> None:
        """`shown`: the messages that a resumed session begins with; read at the first event, or earlier by
        `carry_resumed`, because measuring a long session would delay the start. `density`: true tokens per estimated
        token, as learnt so far; `request_tokens`: estimate of the request that was just answered."""
        self._price = price
        self._density = density
        self._request_tokens = request_tokens
        self._estimated: int | None = None
        """Estimated tokens of the request that is being answered; None: not estimated yet."""
        self._measured_density: float | None = None
        """Like `_density`, for the last request: limits the displayed sizes to what that request measured."""
        self._submissions: list[SubmissionSpending] = []
        self._open = False
        self._tools: dict[str, ToolSpending] = {}
        self._names: dict[str, str] = {}
        """Tool names of calls without a result, by call id."""
        self._order: list[str] = []
        self._held: dict[str, _Held] = {}
        self._carried: dict[str, _Carried] | None = {}
        """Sums of `_held` by tool; None: to be computed."""
        self._collapsed: dict[str, str] = {}
        self._put_away: dict[str, tuple[list[str], dict[str, _Held]]] = {}
        self._fresh = 0
        self._request = 1
        self._by_agent = Totals()
        self._by_purpose = Totals()
        self._steps = StepSavings(price)
        self._shown: Callable[[], Sequence[Message]] | None = shown
        self._waiting: list[tuple[ev.Event, float]] = []
        """Events not counted yet, each with the density at its arrival."""

    @property
    def by_agent(self) -> Totals:
        self._count_waiting()
        return self._by_agent

    @property
    def by_purpose(self) -> Totals:
        self._count_waiting()
        return self._by_purpose

    @property
    def steps(self) -> StepSavings:
        """Savings by the steps that free space in old content."""
        self._count_waiting()
        return self._steps

    @property
    def submissions(self) -> tuple[SubmissionSpending, ...]:
        self._count_waiting()
        return tuple(self._submissions)

    @property
    def tools(self) -> Mapping[str, ToolSpending]:
        """Spending per tool, most expensive first."""
        self._count_waiting()
        in_context = {tool: row.tokens for tool, row in self._add_up().items()}
        density = self._measured_density or self._density()
        rows = {
            name: replace(
                row,
                result_tokens=round(row.result_tokens * density),
                in_context=round(in_context.get(name, 0) * density),
            )
            for name, row in self._tools.items()
        }
        return dict(sorted(rows.items(), key=lambda row: (-row[1].cost_usd, -row[1].sent_tokens, row[0])))

    # --------------------------------------------------------------------------------------------------------- events

    def take(self, event: ev.Event) -> None:
        """Take an event; it is counted when a total is read or the next reply begins, because counting it at once would
        delay the next request."""
        match event:
            case ev.SessionStarted() | ev.ContextCompacted() | ev.PrefixBroken():
                self._waiting.append((event, self._density()))
            case ev.MessageAppended() | ev.ContextEdited() | ev.UsageReported():
                if self._shown is not None:
                    # Read the messages before the event changes them. Measuring them can wait.
                    resumed = self._shown()
                    self._shown = lambda: resumed
                self._waiting.append((event, self._density_of(event)))
            case ev.ReplyStarted():
                self._count_waiting()
                # Estimate now and not with the usage event, after which the next request is waited for.
                self._estimated = self._request_tokens()

    def _density_of(self, event: ev.Event) -> float:
        """True tokens per estimated token. If the server counts fewer tokens than estimated for the whole request,
        every part is scaled down alike."""
        density = self._density()
        if not isinstance(event, ev.UsageReported) or event.purpose != "turn" or event.agent:
            return density
        estimated = self._request_tokens() if self._estimated is None else self._estimated
        self._estimated, measured = None, event.usage.prompt_tokens
        return density * measured / estimated if measured < estimated else density

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event, density in waiting:
            self._take_in(event, density)

    def _take_in(self, event: ev.Event, density: float) -> None:
        if not isinstance(event, ev.SessionStarted):
            self.carry_resumed()
        self._steps.take(event)
        if isinstance(event, ev.UsageReported):
            self._count(event, density)
        elif event.agent:
            return  # Sub-agents have contexts of their own.
        match event:
            case ev.SessionStarted():
                self._open = False
            case ev.MessageAppended(message=message):
                if message.is_prompt and not message.is_copy:
                    self._begin(plain_line(message.text, _TITLE_LIMIT) or "(no text)")
                self._carry(message)
            case ev.ContextEdited(edits=edits):
                for edit in edits:
                    self._edit(edit)

    def carry_resumed(self) -> None:
        """Measure the messages that a resumed session begins with; does nothing when called again."""
        if self._shown is None:
            return
        messages, self._shown = self._shown(), None
        for message in messages:
            self._carry(message, counted=False)
        self._fresh = 0
        self._request += 1
        self._carried = None

    def _begin(self, title: str) -> None:
        self._submissions.append(SubmissionSpending(title))
        self._open = True

    def _count(self, event: ev.UsageReported, density: float) -> None:
        usage, cost = event.usage, event.cost_usd
        self._by_agent = self._by_agent.adding(event.agent or _MAIN, usage, cost)
        self._by_purpose = self._by_purpose.adding(event.purpose, usage, cost)
        if not self._open:
            self._begin("(compaction)" if event.purpose == "compact" else "(between prompts)")
        last = self._submissions[-1]
        self._submissions[-1] = replace(last, spent=_add(last.spent, usage, cost))
        if event.purpose == "turn" and not event.agent and usage.prompt_tokens:
            self._attribute(event.model, usage, density, priced=cost is not None)

    # ------------------------------------------------------------------------------------------------ results in
    # context

    def _carry(self, message: Message, *, counted: bool = True) -> None:
        if message.origin is Origin.BOUNDARY:
            self._put_away[message.id] = (self._order, self._held)
            self._order, self._held, self._carried = [], {}, {}
        self._order.append(message.id)
        self._fresh += message_tokens(message)
        for use in message.tool_uses:
            self._names[use.id] = use.name
        for number, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                name = self._names.pop(block.tool_use_id, "(unknown)")
                tokens = block_tokens(block)
                held = self._held[block_id(message, number)] = _Held(name, tokens, tokens, self._request)
                if self._carried is not None:
                    self._carried.setdefault(name, _Carried()).add(held, self._request)
                # A compaction repeats the last exchange; its calls were made only once.
                if counted and not message.is_copy:
                    old = self._tools.get(name, ToolSpending())
                    self._tools[name] = replace(old, calls=old.calls + 1, result_tokens=old.result_tokens + tokens)

    def _edit(self, edit: Json) -> None:
        target, text = str(edit.get("target", "")), str(edit.get("text", ""))
        match edit.get("kind"):
            case "drop" if target in self._held:
                self._show(self._held[target], 0)
            case "replace" if target in self._held:
                self._show(self._held[target], block_tokens(TextBlock(text)))
            case "restore":
                if target in self._held:
                    self._show(self._held[target], self._held[target].whole)
                through = self._collapsed.pop(target, "")
                if through:
                    self._hide(target, through, hidden=False)
            case "collapse":
                self._collapsed[target] = str(edit.get("through", "")) or target
                self._hide(target, self._collapsed[target], hidden=True)
            case "undo_compaction" if target in self._put_away:
                order, held = self._put_away.pop(target)
                last = str(edit.get("through", ""))
                end = self._order.index(last) + 1 if last in self._order else 0
                said_again = set(self._order[:end])
                since = {id: one for id, one in self._held.items() if id.rpartition(":")[0] not in said_again}
                self._order, self._held, self._carried = order + self._order[end:], held | since, None

    def _show(self, held: _Held, tokens: int) -> None:
        carried = self._carried[held.tool] if self._carried is not None else _Carried()
        carried.add(held, self._request, -1)
        held.shown = tokens
        carried.add(held, self._request)

    def _hide(self, first: str, last: str, *, hidden: bool) -> None:
        """Hide the results of a range of messages, or show them again."""
        if first not in self._order:
            return
        begin = self._order.index(first)
        end = self._order.index(last) if last in self._order[begin:] else begin
        wanted = set(self._order[begin : end + 1])
        for id, held in self._held.items():
            if id.rpartition(":")[0] in wanted:
                held.hidden = hidden
        self._carried = None

    # --------------------------------------------------------------------------------------------------- attribution

    def _attribute(self, model: str, usage: Usage, density: float, *, priced: bool) -> None:
        by_tool = self._add_up()
        carried = sum(row.tokens for row in by_tool.values())
        # Results cannot exceed the whole request, whatever their estimates add up to.
        density = min(density, usage.prompt_tokens / carried) if carried else density
        self._measured_density = density
        new_rate, old_rate = self._rates(model, usage, density) if priced else (0.0, 0.0)
        for tool, results in by_tool.items():
            row = self._tools.get(tool, ToolSpending())
            cost = results.new * new_rate + (results.tokens - results.new) * old_rate
            self._tools[tool] = replace(
                row,
                sent_tokens=row.sent_tokens + round(results.tokens * density),
                cost_usd=row.cost_usd + cost * density,
                unpriced=row.unpriced or not priced,
            )
            results.new = 0
        self._request += 1
        self._fresh = 0

    def _add_up(self) -> dict[str, _Carried]:
        if self._carried is None:
            self._carried = {}
            for held in self._held.values():
                self._carried.setdefault(held.tool, _Carried()).add(held, self._request)
        return self._carried

    def _rates(self, model: str, usage: Usage, density: float) -> tuple[float, float]:
        """Dollars per token that this request contains for the first time, and per older token.

        Tokens not read from the cache are the new ones; if there are more of them than that, the rest are old ones that
        were billed again.
        """
        billed = usage.input_tokens + usage.cache_creation_input_tokens
        read = usage.cache_read_input_tokens
        # Parts are priced within the whole request: prices may rise with the size of the prompt.
        bare = replace(usage, output_tokens=0, web_search_requests=0)
        whole = self._price(model, bare) or 0.0
        unread = replace(bare, input_tokens=usage.input_tokens + read, cache_read_input_tokens=0)
        input_rate = (
            self._price(model, Usage(input_tokens=usage.prompt_tokens, fast=usage.fast)) or 0.0
        ) / usage.prompt_tokens
        again = max(0.0, (self._price(model, unread) or 0.0) - input_rate * read)
        read_cost = max(0.0, whole - again)
        new_rate = again / billed if billed else 0.0
        old = usage.prompt_tokens - min(round(self._fresh * density), billed)
        old_cost = read_cost + new_rate * max(0, old - read)
        return new_rate, old_cost / old if old else new_rate


def _add(spent: ModelTotals, usage: Usage, cost: float | None) -> ModelTotals:
    return ModelTotals(
        usage=spent.usage + usage,
        cost_usd=spent.cost_usd + (cost or 0.0),
        requests=spent.requests + 1,
        unpriced_requests=spent.unpriced_requests + (cost is None),
    )


# -------------------------------------------------------------------------------------------------------- the budget


class StepSavings:
    def __init__(self, price: PriceOf) -> None:
        self._price = price
        self._left_out: dict[str, int] = {}
        """Tokens that requests omit, by the target of the edit that removed them."""
        self._left_out_tokens = 0
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
                    self._edit(edit, by_step=event.is_by_step)
                self._is_new = self._is_new or event.is_by_step
            case ev.ContextCompacted():
                self._left_out.clear()
                self._left_out_tokens = 0
            case ev.UsageReported(purpose="turn") if event.usage.prompt_tokens:
                self._count(event.model, event.usage)
            case ev.PrefixBroken() if event.rebilled_tokens and self._response is not None and self._response[2]:
                self._lose(event.rebilled_tokens, *self._response[:2])

    def _edit(self, edit: Json, *, by_step: bool) -> None:
        target, freed = str(edit.get("target", "")), edit.get("freed")
        self._left_out_tokens -= self._left_out.pop(target, 0)
        if by_step and isinstance(freed, int) and freed > 0:
            self._left_out[target] = freed
            self._left_out_tokens += freed

    def _count(self, model: str, usage: Usage) -> None:
        self._response, self._is_new = (model, usage, self._is_new), False
        tokens = self._left_out_tokens
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
