"""The contracts between the loop, a model provider and its transport, and providers that delegate to another one.

`Provider.stream(request, signal)` never raises for a request, network or model failure: its last event is `Finished` or
`Failed`. The provider retries: it announces every wait and starts the reply again; after `Broken`, the consumer
discards the partial reply. On an abort it closes the connection and ends with `Failed(kind=ABORTED)`. Task cancellation
(closing the generator) closes the connection too.

A transport sends one request to a model and yields the raw events of its reply. It handles connections and turns their
failures into user messages. Retries, the conversation and the meaning of events are in `provider.py`, the same for all
transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import field
from enum import StrEnum
from typing import Literal, Protocol

from agentcli.core.aio import AbortSignal
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, Json
from agentcli.core.space_saving import AppendOnly
from agentcli.core.usage import Usage

Effort = Literal["low", "medium", "high", "xhigh", "max"]
ThinkingMode = Literal["adaptive", "enabled", "disabled"]


@frozen
class Thinking:
    mode: ThinkingMode = "adaptive"
    budget_tokens: int | None = None
    """For `enabled` only."""


@frozen
class Request:
    """A request in terms of the conversation; `body.py` adapts it to the model."""

    model: str
    messages: tuple[Json, ...]
    """Normalised messages in wire form."""
    system: tuple[str, ...] = ()
    """Parts from the most stable to the least; a cache breakpoint follows each of the first two."""
    tools: tuple[Json, ...] = ()
    deferred_tools: tuple[Json, ...] = ()
    """Tools that `tool_reference` blocks in the messages have loaded. Not part of the cached prefix: the API puts each
    definition where it is referenced. Models without tool references get them as ordinary tools."""
    referenced_tools: tuple[str, ...] = ()
    """The names in these blocks, also of tools that are no longer known."""
    max_tokens: int = 8192
    """Tokens for the answer; the budget of enabled thinking is added to it."""
    thinking: Thinking = Thinking()
    effort: Effort | None = None
    """None: the model's default."""
    fast: bool = False
    """Fast mode, for models that have it."""
    task_budget_total: int | None = None
    task_budget_remaining: int | None = None
    fallback_models: tuple[str, ...] = ()
    forbid_tools: bool = False
    """The tools stay in the request (cache) but may not be called."""
    purpose: str = "turn"
    raw_events: bool = False
    sequence: AppendOnly[Json] | None = None
    """The messages as a sequence that shares its beginning with the previous request; see `append_only`."""

    @property
    def append_only(self) -> AppendOnly[Json]:
        """The messages as a sequence, in which new ones are found without comparing all with the previous request."""
        made, messages = self.sequence, self.messages
        same = made is not None and len(made) == len(messages) and (not messages or made[-1] is messages[-1])
        return made if made is not None and same else AppendOnly(messages)


class FailureKind(StrEnum):
    OVERLOADED = "overloaded"
    RATE_LIMIT = "rate_limit"
    SERVER = "server_error"
    CONNECTION = "connection"
    TLS = "tls"
    PROXY = "proxy"
    TIMEOUT = "timeout"
    """408, a stalled stream, or the overall deadline."""
    CONFLICT = "conflict"
    BROKEN_STREAM = "broken_stream"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    UNKNOWN_MODEL = "unknown_model"
    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED = "unsupported_parameter"
    PROMPT_TOO_LONG = "prompt_too_long"
    IMAGE = "image"
    THINKING_REFUSED = "thinking_refused"
    PAIRING = "tool_pairing"
    BILLING = "billing"
    ABORTED = "aborted"
    INTERNAL = "internal"


@frozen
class Failure:
    kind: FailureKind
    message: str
    """User message: what happened, then what to do. Never HTML, never a traceback."""
    status: int | None = None
    request_id: str = ""
    retryable: bool = False
    retry_after: float | None = None
    detail: str = ""
    """The server's error text, for logs and classification."""


@frozen
class Started:
    """message_start. A second one after `Broken` begins a new reply."""

    api_id: str
    model: str
    usage: Usage


@frozen
class Opened:
    index: int
    kind: str
    name: str = ""


@frozen
class Delta:
    """`kind` is text, thinking or input; signatures, citations and unknown deltas go into the block silently."""

    index: int
    kind: Literal["text", "thinking", "input"]
    text: str


@frozen
class Closed:
    """A block is complete. `cut` is true for a tool call without input, which max_tokens may have truncated."""

    index: int
    block: Block
    cut: bool = False


@frozen
class Finished:
    """Last event: the reply is complete. Blocks that the server never closed were closed, or dropped if incomplete."""

    stop_reason: str | None
    usage: Usage
    stop_details: Json = field(default_factory=dict)


@frozen
class Broken:
    """The stream failed after `Started`. Ask for the next event to retry (everything since the last `Started` is then
    void), or close the stream to keep the partial reply. `usage` is the reported usage of the lost reply."""

    failure: Failure
    usage: Usage
    model: str


@frozen
class Waiting:
    """A retry follows in `seconds`; an abort ends the wait immediately."""

    attempt: int
    max_attempts: int
    seconds: float
    failure: Failure


@frozen
class Quiet:
    """No data for `seconds`; not yet a failure."""

    seconds: float


@frozen
class FellBack:
    from_model: str
    to_model: str
    reason: str


@frozen
class Dropped:
    """The endpoint does not support a parameter: the request is sent again, and later ones too, without it."""

    feature: str
    message: str
    model: str = ""
    """The model of the refused request."""
    requested: bool = False
    """Whether the user turned the feature on."""


@frozen
class Raw:
    """An unchanged API event; only if the request asks for raw events."""

    data: Json


@frozen
class Failed:
    """Last event: no reply. `usage` is the reported usage of a reply that an abort cut off."""

    failure: Failure
    usage: Usage = Usage()
    model: str = ""


ModelEvent = Started | Opened | Delta | Closed | Finished | Broken | Waiting | Quiet | FellBack | Dropped | Raw | Failed


class Provider(Protocol):
    @property
    def name(self) -> str: ...

    def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        """See the module docstring. Never raises for a request, network or model failure."""
        ...

    def first_model(self, request: Request) -> str:
        """The model that a request would go to first: the requested one, or a fallback during its cooldown."""
        ...

    async def warm(self) -> None:
        """Do slow preparations of the first request (imports, TLS context) early. Never raises."""
        ...

    async def aclose(self) -> None:
        """Close pooled connections."""
        ...


# ---------------------------------------------------------------------------------------------------------- transports

ALIVE: Json = {}
"""Yielded for bytes that do not complete an event (comments, part of a large event): the connection is not stalled."""


class TransportFailure(Exception):
    """The only exception that a transport raises for network and server failures."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Transport(Protocol):
    """Subclasses without credentials and connections inherit the last three methods."""

    @property
    def name(self) -> str: ...

    def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        """Send one request and yield the API's events, including pings and unknown ones.

        Returns at the end of the body, whether the reply was complete or not. An `error` event is raised as
        `TransportFailure`. Closing the generator, or cancelling the task that waits for its next event, closes the
        connection; `signal` closes it at once.
        """
        ...

    async def renew(self) -> bool:
        """Get new credentials after the server refused them. True if there is something new to try."""
        return False

    async def warm(self) -> None:
        """See `Provider.warm`."""
        return

    async def aclose(self) -> None:
        return None


class NoTransport(Transport):
    """Used when no model can be reached: every request fails with `reason`."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def events(self, body: Json, betas: tuple[str, ...], signal: AbortSignal) -> AsyncGenerator[Json, None]:
        raise TransportFailure(Failure(FailureKind.AUTHENTICATION, self._reason))
        yield ALIVE  # never reached, makes this a generator


# ------------------------------------------------------------------------------------------------ delegating providers


class Connection:
    """A provider that is replaced after a login or a change of server. The engine does not notice the change."""

    def __init__(self) -> None:
        self.key_source = "none"
        self.problem = ""
        """Why no model can be used, and what to do; empty if one can."""
        self._provider: Provider | None = None
        self._retired: list[Provider] = []

    def use(self, provider: Provider, key_source: str, problem: str = "") -> None:
        """Use `provider` from the next request on. A running request continues with the old one, which stays open."""
        if self._provider is not None:
            self._retired.append(self._provider)
        self._provider, self.key_source, self.problem = provider, key_source, problem

    @property
    def name(self) -> str:
        return self._in_use.name

    def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        return self._in_use.stream(request, signal)

    def first_model(self, request: Request) -> str:
        return self._in_use.first_model(request)

    async def warm(self) -> None:
        await self._in_use.warm()

    async def aclose(self) -> None:
        retired, self._retired = self._retired, []
        for provider in (*retired, self._in_use):
            await provider.aclose()

    @property
    def _in_use(self) -> Provider:
        assert self._provider is not None, "a connection is used after something was connected"
        return self._provider


class PluginProvider:
    """A provider that is made when it is first needed, because plugins load after the start."""

    def __init__(self, name: str, make: Callable[[], Awaitable[Provider]]) -> None:
        """`make` raises `AgentError` if there is none: the request fails with its text, and the next one tries
        again."""
        self.name = name
        self._make = make
        self._made: Provider | None = None
        self._making = asyncio.Lock()

    async def _provider(self) -> Provider:
        async with self._making:
            if self._made is None:
                self._made = await self._make()
            return self._made

    async def stream(self, request: Request, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        try:
            provider = await self._provider()
        except AgentError as error:
            yield Failed(Failure(FailureKind.INVALID_REQUEST, str(error)))
            return
        async with aclosing(provider.stream(request, signal)) as events:
            async for event in events:
                yield event

    def first_model(self, request: Request) -> str:
        return self._made.first_model(request) if self._made is not None else request.model

    async def warm(self) -> None:
        with suppress(AgentError):
            await (await self._provider()).warm()

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()
