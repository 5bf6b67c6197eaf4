"""The contract between the loop and a model provider.

`Provider.stream(request, signal)` never raises for a request, network or model failure: its last event is `Finished` or
`Failed`. The provider retries: it announces every wait and starts the reply again; after `Broken`, the consumer
discards the partial reply. On an abort it closes the connection and ends with `Failed(kind=ABORTED)`. Task cancellation
(closing the generator) closes the connection too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import field
from enum import StrEnum
from typing import Literal, Protocol

from agentcli.core.abort import AbortSignal
from agentcli.core.append_only import AppendOnly
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, Json
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
    """A request in terms of the conversation; `requests/body.py` adapts it to the model."""

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
    name: str

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
