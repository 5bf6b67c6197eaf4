"""The extensions of the loop: base classes that do nothing, to be overridden.

An extension must not raise for what happens in the world; an exception that gets through is a bug and ends the
submission with `model_error`, never the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Literal, Protocol

from agentcli.agent.loop_state import LoopState
from agentcli.core.abort import AbortSignal
from agentcli.core.events import ContextEdited, Event
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json, Message, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from agentcli.providers.base import Provider, Request
from agentcli.workspace.base import Workspace

StopSource = Literal["hook", "schema"]
"""Who keeps a submission going or ends it: hooks, or the demand for structured output (`--json-schema`)."""


@frozen
class StopVerdict:
    """What the stop hooks said. Both empty: they let go."""

    errors: tuple[str, ...] = ()
    """They block the stop; the model gets these texts and continues."""
    prevented: str | None = None
    """They end the submission here, with this reason."""
    by: StopSource = "hook"


@frozen
class PreToolVerdict:
    """A hook's word before a call. `allow` never overrides a deny or ask rule."""

    decision: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    updated_input: Json | None = None
    context: tuple[str, ...] = ()
    """Text for the model, added after the results."""


@frozen
class PostToolVerdict:
    stop: str | None = None
    """Not None: the submission ends after this batch, for this reason."""
    context: tuple[str, ...] = ()
    by: StopSource = "hook"


class Hooks:
    """Called around prompts, tool calls, stops and compactions. Each method does nothing unless it is overridden."""

    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict:
        return PreToolVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        return PostToolVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        """A call that did not get to run: unknown, malformed, denied, crashed (PostToolUseFailure)."""
        return PostToolVerdict()

    async def before_prompt(self, text: str) -> tuple[str, ...]:
        """A prompt was submitted; returns texts for the model beside it."""
        return ()

    async def before_stop(self, state: LoopState) -> StopVerdict:
        return StopVerdict()

    async def after_failure(self, text: str) -> None:
        """StopFailure: runs beside, nothing waits for it."""

    async def before_compact(self, trigger: str, focus: str) -> str:
        """Returns the focus to use."""
        return focus

    async def after_compact(self, trigger: str) -> None: ...


class Attachments:
    async def collect(self, state: LoopState) -> Sequence[Message]:
        """Messages for the model before the next request (SPEC 2.6), each thing at most once per change."""
        return ()


class Requests(Protocol):
    """Makes requests for the conversation as it is set up now: model, system prompt, tools, effort."""

    def build(
        self, messages: tuple[Json, ...], max_tokens: int, purpose: str, budget_spent: int | None = None
    ) -> Request:
        """`budget_spent`: tokens of the task budget that the messages no longer show; None when they show all."""

    def small(self, system: str, prompt: str) -> Request:
        """A side request to the small model, without tools and thinking."""


@frozen
class ContextLimits:
    """The room there is. Estimates are compared with `usable`."""

    window: int = 200_000
    reserved: int = 8_192
    overhead: int = 0
    """System prompt and tools, estimated; for when no response has told the truth yet."""
    auto_compact: bool = True
    auto_threshold: float = 0.9
    max_auto_failures: int = 3

    @property
    def usable(self) -> int:
        return max(self.window - self.reserved, 1)


PriceOf = Callable[[str, Usage], float | None]


@frozen
class Staging:
    """What summaries of old spans are made with, and of, as things stand before a request."""

    provider: Provider
    requests: Requests
    price: PriceOf
    late: list[Event]
    """Where what it costs is put, for the loop to take when it passes by."""
    log: Sequence[Message]
    estimate: int
    usable: int
    pinned: frozenset[str] = frozenset()
    """Blocks that the user wants kept, by the ids they have now."""


class Collapser:
    """Old spans, summarised in the background and staged until needed (SPEC 2.1 step 5). This one makes none."""

    def staged(self) -> int:
        return 0

    def stage(self, staging: Staging, signal: AbortSignal) -> None:
        """Begin summaries if they may be needed soon; returns at once."""

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ContextEdited | None:
        """Commit all staged spans to the view; what was done, for the record."""
        return None

    async def aclose(self) -> None:
        """End what runs in the background, with the submission. What is staged stays."""


@frozen
class Extensions:
    """The parts of a loop that policy decides, each with a default that does nothing."""

    hooks: Hooks = field(default_factory=Hooks)
    collapser: Collapser = field(default_factory=Collapser)
    attachments: Attachments = field(default_factory=Attachments)
    workspace: Workspace = field(default_factory=Workspace)
