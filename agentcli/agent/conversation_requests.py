"""Requests of a conversation: built from its profile, its tools and the deferred tools that it has loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentcli.agent.profile import Profile
from agentcli.context.estimate import schema_tokens, text_tokens
from agentcli.core.append_only import AppendOnly
from agentcli.core.messages import Json, Message, block_to_wire
from agentcli.providers.base import Request, Thinking
from agentcli.providers.requests.body import advisor_tool, referenced_tools, with_api_search


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
        self.found_by_api: Callable[[], Mapping[str, Json]] | None = None
        """All deferred tools by name, if the API searches them itself; None: only loaded ones are sent."""

    def are_deferred(self, model: str) -> bool:
        """Whether requests to this model defer tools."""
        return not self.is_refused and self._are_deferred(model)

    def named(self, names: Iterable[str]) -> dict[str, Json]:
        """The definitions of these tools, fixed from now on; unknown tools are left out."""
        found = self.found_by_api() if self.found_by_api is not None else {}
        for name in names:
            if name in found:
                self.definitions.setdefault(name, found[name])
        return {name: self.definitions[name] for name in names if name in self.definitions}


class ConversationRequests:
    """Builds requests with the profile that is active when each one is built. Implements `Requests`."""

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
        self._references = referenced_tools()
        self._loaded = loaded or LoadedTools()
        self._sent: tuple[Json, ...] | None = None
        """The direct tools of the last request; None before the first one."""
        self._sizes: tuple[tuple[str, ...], float] | None = None
        """The system prompt that was measured, and the estimated tokens of it and the tools."""

    def use_tools(self, tools: tuple[Json, ...]) -> None:
        """Offer these tools from the next request on, which breaks the prompt cache."""
        self.tools = tools
        self._sizes = None

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

    def loaded_by(self, messages: Iterable[Message]) -> tuple[Json, ...]:
        """The deferred tools that a request with these messages has."""
        wire = [{"role": m.role, "content": [block_to_wire(block) for block in m.content]} for m in messages]
        direct = {tool["name"] for tool in self.tools}
        loaded = self._loaded.named(referenced_tools().of(wire))
        return tuple(tool for name, tool in loaded.items() if name not in direct)

    @property
    def has_other_tools(self) -> bool:
        """Whether the next request has other direct tools than the last one, so that nothing of it is cached."""
        return self._sent is not None and self._sent != self.tools

    def _with_loaded(self, names: tuple[str, ...], model: str) -> tuple[tuple[Json, ...], tuple[Json, ...]]:
        """The tools of a request whose messages refer to these, and those that are deferred in it."""
        loaded = self._loaded
        if not names and loaded.found_by_api is None:
            return self.tools, ()
        direct = {tool["name"] for tool in self.tools}
        referenced = {name: tool for name, tool in loaded.named(names).items() if name not in direct}
        if loaded.found_by_api is not None and loaded.are_deferred(model):
            every = {**loaded.found_by_api(), **referenced}
            return with_api_search(self.tools), tuple(every.values())
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
        if self._sizes is None or self._sizes[0] is not system:
            self._sizes = (system, sum(map(text_tokens, system)) + sum(map(schema_tokens, self.tools)))
        return round(self._sizes[1] * self._density())
