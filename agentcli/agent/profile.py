"""The settings of a conversation (model, effort, system prompt, bounds), the limits that follow from them, and its
requests, built from the settings, its tools and the deferred tools that it has loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentcli.agent.loop_state import Limits
from agentcli.agent.toolcalls.calls import Executor
from agentcli.context.estimate import schema_tokens, text_tokens
from agentcli.context.steps import ContextLimits
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, block_to_wire
from agentcli.core.space_saving import AppendOnly
from agentcli.core.usage import Price, Usage
from agentcli.providers.base import Effort, Request, Thinking
from agentcli.providers.body import advisor_tool, collect_referenced_tools, thinking_budget
from agentcli.providers.catalog import Catalog, nearest_effort


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
    session_titles: bool = False
    """Whether the small model names new sessions."""
    session_retention_days: int = 0
    """Days after which sessions without a name are deleted; 0: never."""
    otlp_endpoint: str = ""
    """Address of the collector that gets a trace of each prompt, or `env`; "": none."""
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


class LoadedTools:
    """The deferred tools that a conversation has loaded, with the definitions that requests send."""

    def __init__(self, are_deferred: Callable[[str], bool] = lambda _model: True) -> None:
        """`are_deferred`: whether a model takes references to tools. Others get loaded tools as ordinary ones, which
        breaks the prompt cache."""
        self.is_refused = False
        """Whether the endpoint has refused deferred tools."""
        self.definitions: dict[str, Json] = {}
        """By name. A definition never changes: it is part of the prompt prefix wherever messages refer to it."""
        self._are_deferred = are_deferred

    def are_deferred(self, model: str) -> bool:
        """Whether requests to this model defer tools."""
        return not self.is_refused and self._are_deferred(model)

    def named(self, names: Iterable[str]) -> dict[str, Json]:
        """The definitions of these tools; unknown tools are left out."""
        return {name: self.definitions[name] for name in names if name in self.definitions}


class ConversationRequests:
    """Builds requests with the profile that is active when each one is built. Implements `Requests`."""

    def __init__(
        self,
        profile: Callable[[], Profile],
        tools: tuple[Json, ...],
        loaded: LoadedTools | None = None,
    ) -> None:
        self._profile = profile
        self.tools = tools
        self._references = collect_referenced_tools()
        self._loaded = loaded or LoadedTools()
        self._sent: tuple[Json, ...] | None = None
        """The direct tools of the last request; None before the first one."""
        self._size: tuple[tuple[str, ...], int] | None = None
        """The system prompt that was measured, and the estimated tokens of it and the tools."""

    def use_tools(self, tools: tuple[Json, ...]) -> None:
        """Offer these tools from the next request on, which breaks the prompt cache."""
        self.tools = tools
        self._size = None

    def build(
        self, messages: Sequence[Json], max_tokens: int, purpose: str, budget_spent: int | None = None
    ) -> Request:
        profile = self._profile()
        names = tuple(self._references.of(messages))
        tools, deferred = self._with_loaded(names, profile.model)
        if purpose == "turn":
            self._sent = self.tools
        if profile.advisor:
            tools = (*tools, advisor_tool(profile.advisor))
        total = profile.task_budget
        # The API counts what the messages show. `remaining` carries over only what a compaction took out of them.
        remaining = None if total is None or budget_spent is None else max(total - budget_spent, 0)
        return Request(
            model=profile.model,
            messages=messages.to_tuple() if isinstance(messages, AppendOnly) else tuple(messages),
            sequence=messages if isinstance(messages, AppendOnly) else None,
            system=profile.system,
            tools=tools,
            deferred_tools=deferred,
            referenced_tools=names,
            max_tokens=max_tokens,
            thinking=profile.thinking,
            effort=profile.effort,
            fast=profile.fast,
            task_budget_total=total,
            task_budget_remaining=remaining,
            fallback_models=profile.fallback_models,
            purpose=purpose,
            raw_events=profile.raw_events and purpose == "turn",
        )

    def list_loaded_by(self, messages: Iterable[Message]) -> tuple[Json, ...]:
        """The deferred tools that a request with these messages has."""
        wire = [{"role": m.role, "content": [block_to_wire(block) for block in m.content]} for m in messages]
        direct = {tool["name"] for tool in self.tools}
        loaded = self._loaded.named(collect_referenced_tools().of(wire))
        return tuple(tool for name, tool in loaded.items() if name not in direct)

    @property
    def has_other_tools(self) -> bool:
        """Whether the next request has other direct tools than the last one, so that nothing of it is cached."""
        return self._sent is not None and self._sent != self.tools

    def _with_loaded(self, names: tuple[str, ...], model: str) -> tuple[tuple[Json, ...], tuple[Json, ...]]:
        """The tools of a request whose messages refer to these, and those that are deferred in it."""
        loaded = self._loaded
        if not names:
            return self.tools, ()
        direct = {tool["name"] for tool in self.tools}
        referenced = {name: tool for name, tool in loaded.named(names).items() if name not in direct}
        if loaded.are_deferred(model):
            return self.tools, tuple(referenced.values())
        return (*self.tools, *referenced.values()), ()

    def small(self, system: str, prompt: str) -> Request:
        """A request to the small model, for summaries."""
        return Request(
            model=self._profile().small_model,
            messages=({"role": "user", "content": [{"type": "text", "text": prompt or "(nothing)"}]},),
            system=(system,),
            max_tokens=256,
            thinking=Thinking("disabled"),
            purpose="summary",
        )

    def overhead_tokens(self) -> int:
        """An estimate of what every request carries besides the messages."""
        system = self._profile().system
        if self._size is None or self._size[0] is not system:
            self._size = (system, round(sum(map(text_tokens, system)) + sum(map(schema_tokens, self.tools))))
        return self._size[1]
