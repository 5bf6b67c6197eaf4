"""`engine.costs`: what the conversation has cost, what it was spent on, and the budget."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.costs.budget import Budget
from agentcli.agent.costs.cache_watch import CacheWatch
from agentcli.agent.costs.spending import Spending
from agentcli.agent.profile import price_of
from agentcli.core import events as ev
from agentcli.core.usage import CacheLosses, Totals
from agentcli.providers.catalog import Catalog

if TYPE_CHECKING:
    from agentcli.agent.costs.budget import Ask, BudgetQuestion


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
        self._budget: Budget = Budget(budget) if charged is None else charged[0]._budget
        self._interactive = interactive
        self.totals = Totals()
        """Totals since the process started."""
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

    @property
    def _all_totals(self) -> Totals:
        """Totals that the budget limits: those of the main conversation, which include its sub-agents."""
        return self.totals if self._charged is None else self._charged[0]._all_totals

    # ---------------------------------------------------------------------------------------------------- the budget

    @property
    def budget(self) -> float | None:
        """The most that this process may spend, in dollars; None: no limit."""
        return self._budget.cap

    def set_budget(self, usd: float | None) -> None:
        """Set or lift (None) the budget; applies at once, also to a running submission."""
        self._budget.set(usd)

    @property
    def is_budget_spent(self) -> bool:
        return self._budget.is_spent(self._all_totals)

    @property
    def budget_text(self) -> str:
        """Why the spent budget stops requests, and what to do."""
        return self._budget.text(self._all_totals, interactive=self._interactive)

    def take_budget_warning(self) -> str | None:
        """A warning when most of the budget is spent; once per budget."""
        return self._budget.take_warning(self.totals, interactive=self._interactive)

    @property
    def budget_lock(self) -> asyncio.Lock:
        """Held while the user is asked about the budget."""
        return self._budget.asking

    def budget_question(self, ask: Ask) -> BudgetQuestion:
        from agentcli.agent.costs.budget import BudgetQuestion

        return BudgetQuestion(self._budget, lambda: self._all_totals, ask)
