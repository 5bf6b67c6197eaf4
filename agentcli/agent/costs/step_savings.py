"""What the steps that make room in old content have saved, against what the cache they broke was billed for.

A request that goes without what a step left out would have read it from the cache: that is saved, once for each
request. A step that changes what is cached has the rest written again: that is re-billed, as the response reports it.
Read from the events of a conversation as they pass.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agentcli.agent.ports import PriceOf
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.usage import CacheLosses, Usage

STEPS: Collection[str] = ("budget", "snip", "microcompact", "collapse")


class StepSavings:
    def __init__(self, price: PriceOf) -> None:
        self._price = price
        self._left_out: dict[str, int] = {}
        """By the target of its edit: tokens that requests go without."""
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
            case ev.UsageReported(purpose="turn") if event.usage.prompt_tokens:
                self._count(event.model, event.usage)
            case ev.PrefixBroken() if event.rebilled_tokens and self._response is not None and self._response[2]:
                self._lose(event.rebilled_tokens, *self._response[:2])

    def _edit(self, edit: Json, *, by_step: bool) -> None:
        target, freed = str(edit.get("target", "")), edit.get("freed")
        self._left_out.pop(target, None)
        if by_step and isinstance(freed, int) and freed > 0:
            self._left_out[target] = freed

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
            model, tokens, long_lived=long_lived, broken=True, prompt=usage.prompt_tokens
        )
