"""Where the money goes: per submission, per agent, per purpose, and per tool; and the budget that bounds it.

Read from the events of a conversation as they pass. What responses report is counted as it is; what a tool costs is an
attribution, because the API bills whole requests: a result is in every request from the one after its call until it is
cleared or compacted away, so it costs its tokens at the price of what is new the first time and at the price of what is
old, mostly read from the cache, each further time. The sizes of results are estimates.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence

from agentcli.agent.costs.account import budget_spent, budget_text
from agentcli.agent.ports import PriceOf
from agentcli.context.edits import block_id
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.core import events as ev
from agentcli.core.format import money
from agentcli.core.frozen import frozen, replace, slotted
from agentcli.core.messages import Json, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.plaintext import plain_line
from agentcli.core.usage import CacheLosses, ModelTotals, Totals, Usage

WARN_AT = 0.8
"""Share of the budget from which on the user is warned, once."""
_TITLE_LIMIT = 80
_MAIN = "main"


@frozen
class SubmissionSpending:
    title: str
    """The beginning of the prompt, for people."""
    spent: ModelTotals = ModelTotals()


@frozen
class ToolSpending:
    calls: int = 0
    result_tokens: int = 0
    """Of all its results, each counted once."""
    in_context: int = 0
    """Of those that the next request still carries."""
    sent_tokens: int = 0
    """Of its results, times the requests that carried them."""
    cost_usd: float = 0.0
    unpriced: bool = False
    """Requests whose price is not known carried them too: the cost is not all."""


@slotted
class _Held:
    """A result that requests carry."""

    tool: str
    whole: int
    shown: int
    """As edits of its own left it."""
    request: int
    """The number of the first request that carries it."""
    hidden: bool = False
    """A message stands for it and others."""

    @property
    def tokens(self) -> int:
        return 0 if self.hidden else self.shown


@slotted
class _Carried:
    """Tokens of a tool's results in the next request: all of them, and those that it carries for the first time."""

    tokens: int = 0
    new: int = 0

    def add(self, held: _Held, request: int, sign: int = 1) -> None:
        self.tokens += sign * held.tokens
        if held.request >= request:
            self.new += sign * held.tokens


_COUNTED = (
    ev.SessionStarted,
    ev.MessageAppended,
    ev.ContextEdited,
    ev.ContextCompacted,
    ev.UsageReported,
    ev.PrefixBroken,
)
"""The events that say something about costs."""
_AFTER_RESUMED = (ev.MessageAppended, ev.UsageReported, ev.ContextEdited)
"""Those that come after the messages of a resumed session have been measured."""


class Spending:
    def __init__(
        self,
        price: PriceOf,
        shown: Callable[[], Sequence[Message]] = tuple,
        density: Callable[[], float] = lambda: 1.0,
        request_tokens: Callable[[], int] = lambda: 0,
    ) -> None:
        """`shown`: the messages that a resumed session begins with; read when the first event comes, or before by
        `carry_resumed`, because measuring a long one would hold up the start. `density`: true tokens per estimated
        one, as learnt so far; `request_tokens`: the estimate of the request that was just answered."""
        self._price = price
        self._density = density
        self._request_tokens = request_tokens
        self._estimated: int | None = None
        """Tokens of the request that is being answered; None: not estimated yet."""
        self._measured_density: float | None = None
        """As `_density`, of the last request: the sizes that are shown come to no more than it measured."""
        self._submissions: list[SubmissionSpending] = []
        self._open = False
        self._tools: dict[str, ToolSpending] = {}
        self._names: dict[str, str] = {}
        """Tools of the calls without a result, by the id of the call."""
        self._order: list[str] = []
        self._held: dict[str, _Held] = {}
        self._carried: dict[str, _Carried] | None = {}
        """What `_held` comes to, by tool; None: to be added up."""
        self._collapsed: dict[str, str] = {}
        self._put_away: dict[str, tuple[list[str], dict[str, _Held]]] = {}
        self._fresh = 0
        self._request = 1
        self._by_agent = Totals()
        self._by_purpose = Totals()
        self._steps = StepSavings(price)
        self._shown: Callable[[], Sequence[Message]] | None = shown
        self._waiting: list[tuple[ev.Event, float]] = []
        """Events that are not counted yet, each with the density when it came."""

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
        """Of the steps that make room in old content."""
        self._count_waiting()
        return self._steps

    @property
    def submissions(self) -> tuple[SubmissionSpending, ...]:
        self._count_waiting()
        return tuple(self._submissions)

    @property
    def tools(self) -> Mapping[str, ToolSpending]:
        """Per tool, the dearest first."""
        self._count_waiting()
        in_context = {tool: row.tokens for tool, row in self._added_up().items()}
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

    # ---------------------------------------------------------------------------------------------- what comes along

    def take(self, event: ev.Event) -> None:
        """Take an event, to be counted when a total is read or the next reply begins: counting it at once would delay
        the next request."""
        if isinstance(event, _COUNTED):
            if self._shown is not None and isinstance(event, _AFTER_RESUMED):
                # Before the event changes what is shown. Measuring it can wait.
                resumed = self._shown()
                self._shown = lambda: resumed
            self._waiting.append((event, self._density_of(event)))
        elif isinstance(event, ev.ReplyStarted):
            self._count_waiting()
            # Now and not with its usage, which comes when the next request is about to be waited for.
            self._estimated = self._request_tokens()

    def _density_of(self, event: ev.Event) -> float:
        """True tokens per estimated one. A server may count fewer than estimated in the whole request: then every part
        of it has its share of that."""
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
        if isinstance(event, _AFTER_RESUMED):
            self.carry_resumed()
        self._steps.take(event)
        if isinstance(event, ev.UsageReported):
            self._count(event, density)
        elif event.agent:
            return  # What another agent carries is in its own context.
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
        """Measure the messages that a resumed session begins with; does nothing the next time."""
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
        self._submissions[-1] = replace(last, spent=_added(last.spent, usage, cost))
        if event.purpose == "turn" and not event.agent and usage.prompt_tokens:
            self._attribute(event.model, usage, density, priced=cost is not None)

    # ------------------------------------------------------------------------------------------------ what is carried

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
                # A compaction says the last exchange again; its calls were made once.
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
        """The results of these messages are shown no more, or again as they were."""
        if first not in self._order:
            return
        begin = self._order.index(first)
        end = self._order.index(last) if last in self._order[begin:] else begin
        wanted = set(self._order[begin : end + 1])
        for id, held in self._held.items():
            if id.rpartition(":")[0] in wanted:
                held.hidden = hidden
        self._carried = None

    # ---------------------------------------------------------------------------------------------- what it has cost

    def _attribute(self, model: str, usage: Usage, density: float, *, priced: bool) -> None:
        by_tool = self._added_up()
        carried = sum(row.tokens for row in by_tool.values())
        # Results are never more than the whole request, whatever their estimates come to.
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

    def _added_up(self) -> dict[str, _Carried]:
        if self._carried is None:
            self._carried = {}
            for held in self._held.values():
                self._carried.setdefault(held.tool, _Carried()).add(held, self._request)
        return self._carried

    def _rates(self, model: str, usage: Usage, density: float) -> tuple[float, float]:
        """Dollars for a token that this request carries for the first time, and for one that it does not.

        What was not read from the cache is what is new; if it is more than that, the rest is old and was billed again.
        """
        billed = usage.input_tokens + usage.cache_creation_input_tokens
        read = usage.cache_read_input_tokens
        # Parts of a request are priced within the whole: prices may rise with the size of the prompt.
        bare = replace(usage, output_tokens=0, web_search_requests=0)
        whole = self._price(model, bare) or 0.0
        unread = replace(bare, input_tokens=usage.input_tokens + read, cache_read_input_tokens=0)
        input_rate = (self._price(model, Usage(input_tokens=usage.prompt_tokens)) or 0.0) / usage.prompt_tokens
        again = max(0.0, (self._price(model, unread) or 0.0) - input_rate * read)
        cheap = max(0.0, whole - again)
        new_rate = again / billed if billed else 0.0
        old = usage.prompt_tokens - min(round(self._fresh * density), billed)
        old_cost = cheap + new_rate * max(0, old - read)
        return new_rate, old_cost / old if old else new_rate


def _added(spent: ModelTotals, usage: Usage, cost: float | None) -> ModelTotals:
    return ModelTotals(
        usage=spent.usage + usage,
        cost_usd=spent.cost_usd + (cost or 0.0),
        requests=spent.requests + 1,
        unpriced_requests=spent.unpriced_requests + (cost is None),
    )


# -------------------------------------------------------------------------------------------------------- the budget


class Budget:
    """What a conversation may cost in this process, and whether the user has been warned."""

    def __init__(self, cap: float | None = None) -> None:
        self.cap = cap
        self.asking = asyncio.Lock()
        """Held while the user is asked: several agents may reach the budget at the same time."""
        self._warned = False

    def set(self, cap: float | None) -> None:
        """None: no bound. Another bound warns again."""
        self.cap = cap
        self._warned = False

    def is_spent(self, totals: Totals) -> bool:
        return budget_spent(self.cap, totals)

    def take_warning(self, totals: Totals, *, interactive: bool = False) -> str | None:
        """Once, when most of it is spent."""
        if self.cap is None or self._warned or self.is_spent(totals) or totals.cost_usd < self.cap * WARN_AT:
            return None
        self._warned = True
        then = "you are asked whether to continue" if interactive else "the run stops"
        return f"{money(totals.cost_usd)} of the budget of {money(self.cap)} is spent. At the budget {then}."

    def text(self, totals: Totals, *, interactive: bool) -> str:
        """Why nothing more is sent, and what to do."""
        text = budget_text(self.cap, totals)
        if not interactive:
            return text
        more = f"/budget {raised(self.cap or 0.0, totals.cost_usd):g}" if totals.fully_priced else "/budget off"
        return f"{text}. Nothing is lost: {more} raises it, /budget off removes it; then send a prompt."


def raised(cap: float, spent: float) -> float:
    """A next bound to offer: twice as much, and in any case some above what is spent; in whole cents."""
    return math.ceil(max(cap * 2, spent * 1.2) * 100 - 1e-6) / 100


STEPS: Collection[str] = ("budget", "snip", "microcompact", "collapse")


class StepSavings:
    def __init__(self, price: PriceOf) -> None:
        self._price = price
        self._left_out: dict[str, int] = {}
        """By the target of its edit: tokens that requests go without."""
        self._left_out_tokens = 0
        self._is_new = False
        """Something was left out since the last response."""
        self._response: tuple[str, Usage, bool] | None = None
        """The last one: its model, its usage, and whether it was the first after a change."""
        self._rebilled = CacheLosses()
        self.requests = 0
        """That were smaller for it."""
        self.saved_tokens = 0
        self.saved_usd = 0.0
        self.priced = True
        """False: for some of it no price is known, and the dollars are not all."""

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
                    self._edit(edit, by_step=event.step in STEPS)
                self._is_new = self._is_new or event.step in STEPS
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
            model, tokens, long_lived=long_lived, broken=True, prompt=usage.prompt_tokens
        )
