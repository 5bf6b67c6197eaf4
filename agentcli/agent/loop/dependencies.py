"""Everything one submission's loop works with. Built by the engine, anew for each submission; see `Engine`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from agentcli.agent.cache.watch import CacheWatch
from agentcli.agent.context.compaction import CompactParts
from agentcli.agent.loop.state import CompactTracking, Limits
from agentcli.agent.loop.turn import TurnParts
from agentcli.agent.ports import ContextLimits, Seams, Staging
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.agent.toolcalls.summaries import Summaries
from agentcli.agent.updates.mentions import Mentions
from agentcli.context.compact import pinned_now
from agentcli.context.pipeline import Pipeline
from agentcli.core.abort import AbortSignal
from agentcli.core.events import Event
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message
from agentcli.core.usage import Price


async def nothing_asked() -> AsyncGenerator[Event, None]:
    nothing: tuple[Event, ...] = ()
    for event in nothing:
        yield event


@frozen
class LoopParts:
    turn: TurnParts
    compact: CompactParts
    room: Callable[[], ContextLimits]
    """As it is now: the endpoint may tell a model's window while the first submission runs, and the person may choose
    another model in the middle of one. The same holds for `bounds` and `rates`."""
    bounds: Callable[[], Limits]
    seams: Seams
    queue: PromptQueue
    summaries: Summaries | None
    late: list[Event]
    """Events of background work, put here by it and taken by the loop when it passes by."""
    detach: Callable[[Coroutine[Any, Any, None]], None]
    """Run something beside the submission that nobody waits for (StopFailure hooks); the engine owns it."""
    watch: CacheWatch
    pipeline: Pipeline
    """The steps that make room in old content; one per conversation."""
    mentions: Mentions | None = None
    """Attaches the files that queued prompts mention."""
    rates: Callable[[], Price | None] = lambda: None
    """Of the model in force."""
    changes: Callable[[], int] = lambda: 0
    """How often the person has changed what is in the context, or what has to read it, so far."""
    landed: Callable[[], None] = lambda: None
    """Called when a request is over, whatever came of it: what waited for that can be done now."""
    tracked: Callable[[CompactTracking], None] = lambda _tracking: None
    """Takes what the next submission has to know of compactions, as soon as it is known."""
    within_budget: Callable[[], AsyncGenerator[Event, None]] = nothing_asked
    """Run before a request: asks at the budget's cap, and has the signal aborted if nothing more may be sent."""

    @property
    def context(self) -> ContextLimits:
        return self.room()

    @property
    def limits(self) -> Limits:
        return self.bounds()

    @property
    def price(self) -> Price | None:
        return self.rates()

    @property
    def compacting(self) -> CompactParts:
        """For a compaction that begins now."""
        return replace(self.compact, window=self.context.window)

    def summarise(self, added: Sequence[Message], signal: AbortSignal) -> None:
        """Begin a background summary of a finished batch of tools, if such are wanted; returns at once."""
        if self.summaries is not None:
            self.summaries.start(added, signal)

    def stage(self, log: Sequence[Message], estimate: int, signal: AbortSignal) -> None:
        """Begin background summaries of old exchanges, if they may be needed soon; returns at once."""
        compact = self.compact
        pinned = pinned_now(log, compact.pinned) if compact.pinned else frozenset[str]()
        staging = Staging(
            compact.provider, compact.requests, compact.price, self.late, log, estimate, self.context.usable, pinned
        )
        self.seams.collapser.stage(staging, signal)

    def late_events(self) -> Sequence[Event]:
        """What background work has to say by now, and what broken-off side calls have cost."""
        if not self.late:
            return ()
        taken = tuple(self.late)
        self.late.clear()
        return taken

    async def aclose(self) -> None:
        """End the background work of this submission."""
        try:
            if self.summaries is not None:
                await self.summaries.aclose()
        finally:
            await self.seams.collapser.aclose()
