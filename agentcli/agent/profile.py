"""The settings of a conversation: model, effort and system prompt; its bounds; the limits that follow from them."""

from __future__ import annotations

from collections.abc import Callable

from agentcli.agent.loop_state import Limits
from agentcli.agent.toolcalls.executor import Executor
from agentcli.context.steps import ContextLimits
from agentcli.core.frozen import frozen
from agentcli.core.usage import Price, Usage
from agentcli.providers.base import Effort, Thinking
from agentcli.providers.catalog import Catalog, nearest_effort
from agentcli.providers.requests.body import thinking_budget


@frozen
class Profile:
    """Model, effort, thinking and system prompt of requests. The engine replaces it when the user changes one."""

    model: str
    small_model: str
    fallback_models: tuple[str, ...] = ()
    effort: Effort | None = None
    """The user's choice, whether or not the model supports it; None: the model's own default ("auto")."""
    thinking: Thinking = Thinking()
    fast: bool = False
    """Whether fast mode is requested from models that have it."""
    advisor: str = ""
    """Model that the server may consult during a reply; "": none is offered."""
    system: tuple[str, ...] = ()
    output_cap: int = 8_192
    """Tokens that a reply may have, besides the budget of enabled thinking."""
    context_window: int | None = None
    """Tokens; None: the catalogue's."""
    task_budget: int | None = None
    """Tokens that the API tells the model to keep to; None: no budget is sent."""
    raw_events: bool = False
    """Whether the API's own stream events are passed on as `RawStreamed`."""


@frozen
class Bounds:
    """Limits that the user sets for a submission or session; None: no limit."""

    max_turns: int | None = None
    max_budget_usd: float | None = None
    token_target: int | None = None
    """Output tokens up to which the model is asked to continue."""


@frozen
class Tuning:
    """How the loop works, from the settings: tool execution, compaction, confirmations."""

    executor: type[Executor] = Executor
    concurrency: int = 10
    tool_summaries: bool = False
    auto_compact: bool = True
    auto_threshold: float = 0.9
    reactive_compact: bool = True
    compact_preview: bool = True
    """Whether `/compact` shows a preview first, in an interactive session."""
    wake_on_background: bool = True
    """Whether the model continues in the app when a background task has ended."""
    raised_output_cap: int = 64_000
    """Tokens that a repeated request may reply with after a reply was cut off at `output_cap`."""
    confirm_cost_above: float = 0.10
    """Dollars from which on a change that invalidates the prompt cache needs confirmation."""


class ModelSettings:
    """The active profile, which the user can change at any time, and the limits that follow from it.

    Limits are computed when they are used: the endpoint may report a model's window while the first submission runs."""

    def __init__(self, profile: Profile, catalog: Catalog, bounds: Bounds, tuning: Tuning) -> None:
        self.profile = profile
        self.catalog = catalog
        self.without_fast_mode: set[str] = set()
        """Models whose server has refused fast mode."""
        self.bounds = bounds
        self.tuning = tuning

    def limits(self, budget_text: Callable[[], str] = str) -> Limits:
        info = self.catalog.get(self.profile.model)
        cap = min(self.profile.output_cap, info.max_output)
        return Limits(
            max_turns=self.bounds.max_turns,
            output_cap=cap,
            raised_output_cap=max(cap, min(self.tuning.raised_output_cap, info.max_output)),
            reactive_compact=self.tuning.reactive_compact,
            token_target=self.bounds.token_target,
            budget_text=budget_text,
        )

    def context_limits(self, overhead: int) -> ContextLimits:
        info = self.catalog.get(self.profile.model)
        return ContextLimits(
            window=self.profile.context_window or info.context_window,
            reserved=min(self.profile.output_cap + self.thinking_budget, info.max_output),
            overhead=overhead,
            auto_compact=self.tuning.auto_compact,
            auto_threshold=self.tuning.auto_threshold,
        )

    @property
    def effort(self) -> Effort | None:
        """The chosen effort as the model supports it; None: the model's own default."""
        wanted = self.profile.effort
        return None if wanted is None else nearest_effort(self.catalog.get(self.profile.model), wanted)[0]

    @property
    def thinking_budget(self) -> int:
        """Tokens that requests add to the output cap for enabled thinking."""
        return thinking_budget(self.profile.thinking, self.catalog.get(self.profile.model))

    @property
    def is_fast(self) -> bool:
        """Whether requests ask for fast mode: it is on, the model has it, and its server has not refused it."""
        return self._is_fast(self.profile, self.profile.model)

    def _is_fast(self, profile: Profile, model: str) -> bool:
        info = self.catalog.get(model)
        return profile.fast and info.fast_price is not None and info.id not in self.without_fast_mode

    @property
    def price(self) -> Price | None:
        """Price of the active model at its speed; None: unknown."""
        return self.price_of(self.profile, self.profile.model)

    def price_of(self, profile: Profile, model: str) -> Price | None:
        """Price of a request with this profile if this model answers; None: unknown."""
        return self.catalog.get(model).price_at(fast=self._is_fast(profile, model))


def price_of(catalog: Catalog) -> Callable[[str, Usage], float | None]:
    """A function that gives the dollars for a model's usage; None: the price is unknown."""

    def price(model: str, usage: Usage) -> float | None:
        found = catalog.get(model).price_at(fast=usage.fast)
        return None if found is None else found.cost(usage)

    return price
