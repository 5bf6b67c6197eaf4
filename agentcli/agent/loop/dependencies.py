"""`LoopDependencies`: everything that an iteration of the loop uses. Built per submission in `agent/loop_setup.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from agentcli.agent.cache.watch import CacheWatch
from agentcli.agent.context.compaction import CompactionDependencies
from agentcli.agent.context.control import ContextControl
from agentcli.agent.loop.turn import TurnDependencies
from agentcli.agent.loop_state import Limits, PendingSummary
from agentcli.agent.ports import ContextLimits, EmitEvent, Exit, Extensions, Staging
from agentcli.agent.profile import ModelSettings
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.agent.toolcalls.summaries import Summaries
from agentcli.agent.updates.mentions import Mentions
from agentcli.context.compact import pinned_now
from agentcli.context.pipeline import Pipeline
from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Message
from agentcli.core.usage import Price


@frozen
class LoopDependencies:
    turn: TurnDependencies
    """Provider, tool runner, ids and clock."""
    compaction: CompactionDependencies
    """View of the log, request builder, pins and hooks."""
    extensions: Extensions
    """Hooks, collapser, attachments and workspace."""
    settings: ModelSettings
    """Model and limits; the user can change them while a submission runs."""
    context: ContextControl
    """Notified when a request has ended; keeps the history of auto-compaction."""
    queue: PromptQueue
    mentions: Mentions | None
    """Attaches the files that queued prompts mention."""
    watch: CacheWatch
    pipeline: Pipeline
    """The steps that shorten old content; one per conversation."""
    ask_about_budget: Callable[[], Awaitable[None]]
    """Asks the user before a request if the budget is spent; aborts the submission if no request may be sent."""
    budget_text: Callable[[], str]
    """Why the budget ends the submission."""
    summaries: Summaries | None
    """Summarises finished batches of tools in the background; None: off."""
    exit: Exit
    """Takes the events of all stages to the consumer."""
    runs_background: Callable[[], bool]
    """Whether a background command or agent runs."""
    detach_hook: Callable[[Coroutine[Any, Any, None]], None]
    """Runs StopFailure hooks, which only the end of the session waits for."""

    @property
    def emit(self) -> EmitEvent:
        return self.exit.emit

    @property
    def context_limits(self) -> ContextLimits:
        return self.settings.context_limits(self.compaction.overhead)

    @property
    def limits(self) -> Limits:
        return self.settings.limits(self.budget_text)

    @property
    def price(self) -> Price | None:
        return self.settings.price

    def for_compaction(self, budget_spent: int | None = None) -> CompactionDependencies:
        """The dependencies of a compaction that starts now. `budget_spent` as in `LoopState`."""
        return replace(self.compaction, window=self.context_limits.window, budget_spent=budget_spent)

    def summarise_tools(self, added: Sequence[Message], signal: AbortSignal) -> PendingSummary | None:
        """Start a background summary of a finished batch of tools, if enabled; returns at once."""
        return self.summaries.start(added, signal) if self.summaries is not None else None

    def stage_collapses(self, log: Sequence[Message], estimate: int, signal: AbortSignal) -> None:
        """Start background summaries of old exchanges, if they may be needed soon; returns at once."""
        shared = self.compaction
        pinned = pinned_now(log, shared.pinned) if shared.pinned else frozenset[str]()
        usable = self.context_limits.usable
        emit_soon = self.exit.emit_soon
        staging = Staging(shared.provider, shared.requests, shared.price, emit_soon, log, estimate, usable, pinned)
        self.extensions.collapser.stage(staging, signal)

    async def aclose(self) -> None:
        """Cancel the background work of this submission."""
        try:
            if self.summaries is not None:
                await self.summaries.aclose()
        finally:
            await self.extensions.collapser.aclose()
