"""`engine.costs`: what the conversation has cost, what it was spent on, and the budget."""

from __future__ import annotations

from dataclasses import replace

from agentcli.agent.costs.budget import Budget
from agentcli.agent.costs.cache_watch import CacheWatch
from agentcli.agent.costs.spending import Spending
from agentcli.agent.profile import price_of
from agentcli.core import events as ev
from agentcli.core.usage import CacheLosses, Totals
from agentcli.providers.catalog import Catalog


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
