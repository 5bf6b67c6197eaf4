"""Set up the loop of one submission from the objects of the conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agentcli.agent.context.compaction import CompactionDependencies
from agentcli.agent.context.compaction_restore import restore_sources
from agentcli.agent.conversation_state import ConversationState
from agentcli.agent.engine_setup import EngineSetup
from agentcli.agent.loop.dependencies import LoopDependencies
from agentcli.agent.loop.turn import TurnDependencies
from agentcli.agent.plugins.rendering import PluginRenderers
from agentcli.agent.profile import price_of
from agentcli.agent.questions import Questions, UserQuestion
from agentcli.agent.side_call import SideQuestions
from agentcli.agent.subagents.agents import CallAgents, CallHooks
from agentcli.agent.toolcalls.summaries import Summaries
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.agent.updates.attachments import Composite
from agentcli.agent.updates.mentions import Mentions
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, Aborted, AbortReason
from agentcli.core.messages import Json


def loop_dependencies(state: ConversationState, controller: AbortController) -> LoopDependencies:
    own, requests = state.conversation, state.requests
    price = price_of(own.catalog)
    late: list[ev.Event] = []
    runner = ToolRunner(
        registry=lambda: state.registry,
        permissions=own.permissions,
        questions=state.questions,
        hooks=state.hooks,
        ids=own.ids,
        clock=own.clock,
        workspace=own.extensions.workspace,
        small_model=lambda emit: SideQuestions(own.provider, requests, price, emit, late),
        agents=lambda emit: CallAgents(state.agents, emit, CallHooks(late, controller.abort)),
        before_effects=state.log.begin_effects,
        on_interrupting_denial=controller.abort,
        render=PluginRenderers(own.plugins).render if own.plugins is not None else None,
    )
    turn = TurnDependencies(
        provider=own.provider,
        runner=runner,
        price=price,
        ids=own.ids,
        clock=own.clock,
        executor=own.tuning.executor,
        concurrency=own.tuning.concurrency,
        keep=state.log.keep,
        beside=(state.agents, *((state.server_questions,) if state.server_questions is not None else ())),
    )
    overhead = requests.overhead_tokens()
    compaction = CompactionDependencies(
        own.provider,
        requests,
        own.view,
        state.hooks,
        price,
        own.ids,
        overhead,
        window=state.settings.context_limits(overhead).window,
        pinned=own.pins,
        restore_from=restore_sources(state.registry.get("Read"), own.permissions, state.tool_context, own.definitions),
        whole=None if state.log.is_whole else state.log.whole,
    )
    attachments = Composite(state.user_notes, state.attachments)
    return LoopDependencies(
        turn=turn,
        compaction=compaction,
        extensions=replace(own.extensions, attachments=attachments, hooks=state.hooks),
        settings=state.settings,
        context=state.context,
        queue=state.queue,
        mentions=mentions_for(own, state.questions),
        watch=own.watch,
        pipeline=own.pipeline,
        ask_about_budget=lambda: ask_about_budget(state, controller),
        budget_text=lambda: state.costs.budget_text,
        summaries=Summaries(own.provider, requests, price, late) if own.tuning.tool_summaries else None,
        late=late,
        detach=state.detach,
    )


def mentions_for(own: EngineSetup, questions: Questions) -> Mentions | None:
    """Attaches mentioned files; None without a Read tool."""
    read = own.registry.get("Read")
    return Mentions(read, own.permissions, questions, own.ids, own.mcp) if read is not None else None


async def ask_about_budget(state: ConversationState, controller: AbortController) -> AsyncGenerator[ev.Event, None]:
    """Before a request: when the budget is spent, ask the user; abort unless they raise it."""
    if not state.costs.is_budget_spent or controller.signal.aborted:
        return

    def ask(title: str, reason: str, display: Json, input: Json) -> UserQuestion | None:
        return state.question(title, reason, display, input, controller.signal)

    question = state.costs.budget_question(ask)
    try:
        await controller.signal.acquire(state.costs.budget_lock)
    except Aborted:
        return
    try:
        async with aclosing(question.run()) as events:
            async for event in events:
                yield event
    finally:
        state.costs.budget_lock.release()
    if question.stops:
        controller.abort(AbortReason.BUDGET)
