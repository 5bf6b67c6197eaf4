"""What money is spent on: per submission, agent, purpose and tool, and what steps that shorten old content have saved.

Counted from the events of a conversation. What responses report is exact; the cost of a tool is an attribution, because
the API bills whole requests. A result is in every request from the one after its call until it is cleared or compacted
away: the first time it costs the price of new tokens, each further time the price of old ones, mostly read from the
cache. The sizes of results are estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile

from agentcli.agent.ports import PriceOf
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.core import events as ev
from agentcli.core.append_only import RunningValue
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Message, ToolResultBlock
from agentcli.core.text.plaintext import plain_line
from agentcli.core.usage import CacheLosses, ModelTotals, Totals, Usage

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
        density: Callable[[], float] = lambda: 1.0,
        request_tokens: Callable[[], int] = lambda: 0,
        known: Iterable[str] = (),
    ) -> None:
        """`shown`: gives the messages that a request shows now. `density`: true tokens per estimated token, as learnt.
        `request_tokens`: estimate of the request that was just answered. `known`: ids of the messages that an earlier
        process has sent."""
        self._price = price
        self._shown = shown
        self._density = density
        self._request_tokens = request_tokens
        self._measured_density: float | None = None
        """Like `_density`, for the last request: limits the displayed sizes to what that request measured."""
        self._sent = set(known)
        """Ids of the messages that were part of a request."""
        self._names: dict[str, str] = {}
        """Tool names by call id."""
        self._sizes: dict[int, tuple[ToolResultBlock, int]] = {}
        """Results and their tokens, by object id."""
        self._results = RunningValue[Message, dict[str, int]](dict, self._add_results)
        """Tokens of the results that a request shows, by tool."""
        self._tools: dict[str, ToolSpending] = {}
        self._unattributed: list[tuple[ev.UsageReported, Sequence[Message], float]] = []
        """Answered requests whose cost is not attributed to tools yet: messages, and density when it was answered."""
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
            density, estimated = self._density(), self._request_tokens()
            if usage.prompt_tokens < estimated:
                # The server counts fewer tokens than estimated: every part is scaled down alike.
                density *= usage.prompt_tokens / estimated
            self._unattributed.append((event, self._shown(), density))

    # --------------------------------------------------------------------------------------------------- attribution

    def _attribute_waiting(self) -> None:
        waiting, self._unattributed = self._unattributed, []
        for event, shown, density in waiting:
            self._attribute(event, shown, density)

    def _attribute(self, event: ev.UsageReported, shown: Sequence[Message], density: float) -> None:
        results = self._results.of(shown)
        carried = sum(results.values())
        # Results cannot exceed the whole request, whatever their estimates add up to.
        density = min(density, event.usage.prompt_tokens / carried) if carried else density
        self._measured_density = density
        new_messages = list(takewhile(lambda message: message.id not in self._sent, reversed(shown)))
        self._sent.update(message.id for message in new_messages)
        new: dict[str, int] = {}
        for message in new_messages:
            self._add_results(new, message)
        fresh, is_priced = density * sum(map(message_tokens, new_messages)), event.cost_usd is not None
        new_rate, old_rate = self._rates(event.model, event.usage, fresh) if is_priced else (0.0, 0.0)
        for tool, tokens in results.items():
            row, added = self._tools.get(tool, ToolSpending()), new.get(tool, 0)
            self._tools[tool] = replace(
                row,
                sent_tokens=row.sent_tokens + round(tokens * density),
                cost_usd=row.cost_usd + (added * new_rate + (tokens - added) * old_rate) * density,
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

    def _rates(self, model: str, usage: Usage, fresh: float) -> tuple[float, float]:
        """Dollars per token that this request contains for the first time, and per older token.

        `fresh`: estimated tokens of the first kind. They are among those not read from the cache; the rest of these
        are old ones that were billed again.
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
        old = usage.prompt_tokens - min(round(fresh), billed)
        old_cost = read_cost + new_rate * max(0, old - read)
        return new_rate, old_cost / old if old else new_rate


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
