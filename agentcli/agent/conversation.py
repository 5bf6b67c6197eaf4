"""What an engine is made of, and what one submission's loop gets of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from typing import Any

from agentcli.agent.cache.fingerprint import Front
from agentcli.agent.cache.watch import CacheWatch
from agentcli.agent.context.compaction import CompactParts
from agentcli.agent.context.compaction_restore import surroundings
from agentcli.agent.context.pins import Pins
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.loop.dependencies import LoopParts
from agentcli.agent.loop.turn import TurnParts
from agentcli.agent.ports import ContextLimits, Seams
from agentcli.agent.profile import (
    Bounds,
    ConversationRequests,
    Profile,
    Tuning,
    context_for,
    limits_for,
    price_of,
)
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.agent.questions import Audience, Questions
from agentcli.agent.side_call import SideQuestions
from agentcli.agent.toolcalls.summaries import Summaries
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.agent.updates.changed_files import ChangedFiles
from agentcli.agent.updates.mentions import Mentions
from agentcli.context.pipeline import Pipeline
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.abort import AbortController
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids
from agentcli.core.messages import Message
from agentcli.core.usage import Totals
from agentcli.memory.instructions import InstructionFiles
from agentcli.memory.notes import Notes
from agentcli.providers.base import Provider
from agentcli.providers.catalog import Catalog
from agentcli.session.base import Store
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import Registry

LateSystem = Callable[[], Callable[[], tuple[str, ...]]]
"""Gathers what a system prompt needs (blocking, for a thread); the result makes and records the prompt."""


@frozen
class Conversation:
    """What an engine is made of. `assemble.build_engine` puts one together."""

    provider: Provider
    registry: Registry
    store: Store
    permissions: LivePermissions
    profile: Profile
    tool_context: ToolContext
    catalog: Catalog
    ids: Ids
    clock: Clock
    audience: Audience = Audience.NOBODY
    bounds: Bounds = Bounds()
    tuning: Tuning = Tuning()
    seams: Seams = field(default_factory=Seams)
    view: ContextView = field(default_factory=ContextView)
    log: tuple[Message, ...] = ()
    """Of a resumed session."""
    history: list[ev.Event] = field(default_factory=list)
    """What a resumed session has shown; the front end takes it out."""
    last_reply_at: str = ""
    """When the last reply in it came, as a timestamp; "" if that is not known."""
    last_front: Front | None = None
    """How the last request in it began; None if that is not known."""
    earlier: Totals = Totals()
    """What was used before it was resumed. No budget of now counts it."""
    api_key_source: str = ""
    notices: tuple[ev.NoticeRaised, ...] = ()
    """Shown once, with the first submission: settings problems, what resuming found."""
    offer: Callable[[], str] = lambda: ""
    """A sentence to show with the first prompt while the mode is still the default one; empty for none."""
    wants_structured: bool = False
    commands: tuple[str, ...] = ()
    """The names of the slash commands that front ends can offer."""
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(()))
    news: list[str] = field(default_factory=list)
    """Sentences for the person that others put here; the engine takes them out as it passes."""
    watched: ChangedFiles | None = None
    """Whose news are awaited between submissions; None: the disk is not watched."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The person's own, whole, for the commands that they type themselves."""
    late_system: LateSystem | None = None
    """Gives the system prompt when the first prompt is sent, in place of the profile's: part of it is gathered while
    the program starts. None: the profile's applies."""
    notes: Notes | None = None
    """The project's memory; None: it is off."""
    instruction_files: InstructionFiles | None = None
    watch: CacheWatch = field(default_factory=CacheWatch)
    pins: Pins = field(default_factory=Pins)
    """What the person wants kept in the context."""


@frozen
class Live:
    """The engine's own, which changes as the conversation goes on."""

    requests: ConversationRequests
    profile: Callable[[], Profile]
    questions: Questions
    queue: PromptQueue
    keep: Callable[[ev.Event], None]
    detach: Callable[[Coroutine[Any, Any, None]], None]


def mentions_for(own: Conversation, questions: Questions) -> Mentions | None:
    """What attaches mentioned files; None without a tool that reads."""
    read = own.registry.get("Read")
    return Mentions(read, own.permissions, questions, own.ids) if read is not None else None


def loop_parts(own: Conversation, live: Live, controller: AbortController) -> LoopParts:
    """Everything for one submission's loop, with the limits of the profile that is in force at each moment of it."""
    overhead = live.requests.overhead_tokens()
    price = price_of(own.catalog)
    late: list[ev.Event] = []
    runner = ToolRunner(
        registry=own.registry,
        permissions=own.permissions,
        questions=live.questions,
        hooks=own.seams.hooks,
        ids=own.ids,
        clock=own.clock,
        workspace=own.seams.workspace,
        small_model=lambda emit: SideQuestions(own.provider, live.requests, price, emit, late),
        on_interrupting_denial=controller.abort,
    )
    turn = TurnParts(
        provider=own.provider,
        runner=runner,
        price=price,
        ids=own.ids,
        clock=own.clock,
        executor=own.tuning.executor,
        concurrency=own.tuning.concurrency,
        leave=live.keep,
    )

    def room() -> ContextLimits:
        return context_for(live.profile(), own.tuning, own.catalog, overhead)

    compact = CompactParts(
        own.provider,
        live.requests,
        own.view,
        own.seams.hooks,
        price,
        own.ids,
        overhead,
        window=room().window,
        pinned=own.pins,
        around=surroundings(own.registry.get("Read"), own.permissions, own.tool_context),
    )
    return LoopParts(
        turn=turn,
        compact=compact,
        room=room,
        bounds=lambda: limits_for(live.profile(), own.bounds, own.tuning, own.catalog),
        seams=own.seams,
        queue=live.queue,
        mentions=mentions_for(own, live.questions),
        summaries=Summaries(own.provider, live.requests, price, late) if own.tuning.tool_summaries else None,
        late=late,
        detach=live.detach,
        watch=own.watch,
        pipeline=own.pipeline,
        rates=lambda: own.catalog.get(live.profile().model).price,
    )
