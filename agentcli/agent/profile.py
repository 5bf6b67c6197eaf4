"""How a conversation is set up: model, effort, prompts, bounds; and the requests that follow from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentcli.agent.loop_state import Limits
from agentcli.agent.ports import ContextLimits
from agentcli.agent.toolcalls.executor import Executor
from agentcli.context.estimate import text_tokens
from agentcli.core.frozen import frozen
from agentcli.core.growing import Growing
from agentcli.core.messages import Json, Message, block_to_wire
from agentcli.core.usage import Price, Usage
from agentcli.providers.base import Effort, Request, Thinking
from agentcli.providers.catalog import Catalog, ModelInfo
from agentcli.providers.deferred_tools import ReferenceReader, with_api_search


@frozen
class Profile:
    """Immutable; the engine replaces it when the user changes model, effort or thinking."""

    model: str
    small_model: str
    fallback_models: tuple[str, ...] = ()
    effort: Effort | None = None
    """None: the model's own default ("auto")."""
    thinking: Thinking = Thinking()
    system: tuple[str, ...] = ()
    output_cap: int = 8_192
    context_window: int | None = None
    """None: the catalogue's."""
    task_budget: int | None = None
    raw_events: bool = False


@frozen
class Bounds:
    max_turns: int | None = None
    max_budget_usd: float | None = None
    token_target: int | None = None


@frozen
class Tuning:
    executor: type[Executor] = Executor
    concurrency: int = 10
    tool_summaries: bool = False
    auto_compact: bool = True
    auto_threshold: float = 0.9
    reactive_compact: bool = True
    compact_preview: bool = True
    """`/compact` shows what it would do first, in an interactive session."""
    raised_output_cap: int = 64_000
    confirm_cost_above: float = 0.10
    """Dollars from which a change that makes the prompt cache useless is confirmed first."""


class LoadedTools:
    """Deferred tools that search results have loaded, as requests carry them."""

    def __init__(self, are_deferred: Callable[[str], bool] = lambda _model: True) -> None:
        """`are_deferred`: whether a model takes references to tools. Others get loaded tools as ordinary ones, which
        breaks the prompt cache."""
        self.is_refused = False
        """Whether the endpoint has refused deferred tools."""
        self.definitions: dict[str, Json] = {}
        """By name; never changed once it is there, because references show it in the middle of the messages."""
        self._are_deferred = are_deferred
        self.found_by_api: Callable[[], Mapping[str, Json]] | None = None
        """All deferred tools by name, if the API searches them itself; None: only loaded ones are sent."""

    def are_deferred(self, model: str) -> bool:
        """Whether requests to this model defer tools."""
        return not self.is_refused and self._are_deferred(model)

    def named(self, names: Iterable[str]) -> dict[str, Json]:
        """The definitions of these tools, from now on always the same; without tools that are not known."""
        found = self.found_by_api() if self.found_by_api is not None else {}
        for name in names:
            if name in found:
                self.definitions.setdefault(name, found[name])
        return {name: self.definitions[name] for name in names if name in self.definitions}


class ConversationRequests:
    """Implements `Requests` for the active profile at the moment of each request."""

    def __init__(
        self,
        profile: Callable[[], Profile],
        tools: tuple[Json, ...],
        density: Callable[[], float] = lambda: 1.0,
        loaded: LoadedTools | None = None,
    ) -> None:
        """`density`: true tokens per estimated one, as learnt from the conversation so far."""
        self._profile = profile
        self.tools = tools
        self._density = density
        self._references = ReferenceReader()
        self._loaded = loaded or LoadedTools()
        self._extended: tuple[Json, ...] = tools
        """The tools of the last request that had others than `tools`."""
        self._sizes: tuple[tuple[str, ...], float] | None = None
        """The system prompt that was measured, and what it and the tools come to."""

    def use_tools(self, tools: tuple[Json, ...]) -> None:
        """Offer these tools from the next request on, which breaks the prompt cache."""
        self.tools = tools
        self._sizes = None

    def build(
        self, messages: Sequence[Json], max_tokens: int, purpose: str, budget_spent: int | None = None
    ) -> Request:
        profile = self._profile()
        names = self._references.names(messages)
        tools, deferred = self._with_loaded(names, profile.model)
        total = profile.task_budget
        # The API counts what the messages show. `remaining` carries over only what a compaction took out of them.
        remaining = None if total is None or budget_spent is None else max(total - budget_spent, 0)
        return Request(
            model=profile.model,
            messages=messages.to_tuple() if isinstance(messages, Growing) else tuple(messages),
            sequence=messages if isinstance(messages, Growing) else None,
            system=profile.system,
            tools=tools,
            deferred_tools=deferred,
            referenced_tools=names,
            max_tokens=max_tokens,
            thinking=profile.thinking,
            effort=profile.effort,
            task_budget_total=total,
            task_budget_remaining=remaining,
            fallback_models=profile.fallback_models,
            purpose=purpose,
            raw_events=profile.raw_events and purpose == "turn",
        )

    def loaded_by(self, messages: Iterable[Message]) -> tuple[Json, ...]:
        """The deferred tools that a request with these messages has."""
        wire = [{"role": m.role, "content": [block_to_wire(block) for block in m.content]} for m in messages]
        direct = {tool["name"] for tool in self.tools}
        loaded = self._loaded.named(ReferenceReader().names(wire))
        return tuple(tool for name, tool in loaded.items() if name not in direct)

    def _with_loaded(self, names: tuple[str, ...], model: str) -> tuple[tuple[Json, ...], tuple[Json, ...]]:
        """The tools of a request whose messages refer to these, and those that are deferred in it."""
        loaded = self._loaded
        if not names and loaded.found_by_api is None:
            return self.tools, ()
        direct = {tool["name"] for tool in self.tools}
        referenced = {name: tool for name, tool in loaded.named(names).items() if name not in direct}
        if loaded.found_by_api is not None and loaded.are_deferred(model):
            every = {**loaded.found_by_api(), **referenced}
            return self._extend(with_api_search(self.tools)), tuple(every.values())
        if loaded.are_deferred(model):
            return self.tools, tuple(referenced.values())
        return self._extend((*self.tools, *referenced.values())), ()

    def _extend(self, tools: tuple[Json, ...]) -> tuple[Json, ...]:
        """The same object as long as the tools are equal."""
        if self._extended != tools:
            self._extended = tools
        return self._extended

    def small(self, system: str, prompt: str) -> Request:
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
        if self._sizes is None or self._sizes[0] is not system:
            self._sizes = (system, sum(map(text_tokens, system)) + sum(map(schema_tokens, self.tools)))
        return round(self._sizes[1] * self._density())


def schema_tokens(tool: Json) -> float:
    """Of a tool as requests carry it, before anything is known about the model."""
    return text_tokens(json.dumps(tool, ensure_ascii=False))


class ModelSettings:
    """The active profile, which the user can change at any time, and the limits that follow from it.

    Limits are computed when they are used: the endpoint may report a model's window while the first submission runs."""

    def __init__(self, profile: Profile, catalog: Catalog, bounds: Bounds, tuning: Tuning) -> None:
        self.profile = profile
        self.catalog = catalog
        self._bounds = bounds
        self._tuning = tuning
        self._context_limits: tuple[Profile, ModelInfo, ContextLimits] | None = None
        """The last ones, and what they follow from."""
        self._limits: tuple[Profile, ModelInfo, Limits] | None = None

    def limits(self, budget_text: Callable[[], str] = str) -> Limits:
        profile, info = self.profile, self.catalog.get(self.profile.model)
        known = self._limits
        if known is None or known[0] is not profile or known[1] is not info or known[2].budget_text is not budget_text:
            cap = min(profile.output_cap, info.max_output)
            limits = Limits(
                max_turns=self._bounds.max_turns,
                output_cap=cap,
                raised_output_cap=max(cap, min(self._tuning.raised_output_cap, info.max_output)),
                reactive_compact=self._tuning.reactive_compact,
                token_target=self._bounds.token_target,
                budget_text=budget_text,
            )
            known = self._limits = (profile, info, limits)
        return known[2]

    def context_limits(self, overhead: int) -> ContextLimits:
        profile, info = self.profile, self.catalog.get(self.profile.model)
        known = self._context_limits
        if known is None or known[0] is not profile or known[1] is not info or known[2].overhead != overhead:
            limits = ContextLimits(
                window=profile.context_window or info.context_window,
                reserved=min(profile.output_cap, info.max_output),
                overhead=overhead,
                auto_compact=self._tuning.auto_compact,
                auto_threshold=self._tuning.auto_threshold,
            )
            known = self._context_limits = (profile, info, limits)
        return known[2]

    @property
    def price(self) -> Price | None:
        """Of the active model; None: not known."""
        return self.catalog.get(self.profile.model).price


def price_of(catalog: Catalog) -> Callable[[str, Usage], float | None]:
    def price(model: str, usage: Usage) -> float | None:
        found = catalog.get(model).price
        return None if found is None else found.cost(usage)

    return price
