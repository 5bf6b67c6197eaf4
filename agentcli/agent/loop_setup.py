"""Set up the loop of one submission from the objects of the conversation."""

from __future__ import annotations

from dataclasses import replace

from agentcli.agent.context.compaction import CompactionDependencies
from agentcli.agent.context.compaction_restore import restore_sources
from agentcli.agent.conversation_state import ConversationState
from agentcli.agent.engine_setup import EngineSetup
from agentcli.agent.loop.dependencies import LoopDependencies
from agentcli.agent.loop.turn import TurnDependencies
from agentcli.agent.plugins import PluginRenderers
from agentcli.agent.ports import EmitEvent, Exit
from agentcli.agent.profile import price_of
from agentcli.agent.questions import Questions, UserQuestion
from agentcli.agent.side_call import SideQuestions
from agentcli.agent.subagents.agents import CallAgents, CallHooks
from agentcli.agent.toolcalls.summaries import Summaries
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.agent.updates.attachments import Composite
from agentcli.agent.updates.mentions import Mentions
from agentcli.core.abort import AbortController, Aborted, AbortReason
from agentcli.core.messages import Json


def loop_dependencies(state: ConversationState, controller: AbortController, exit: Exit) -> LoopDependencies:
    setup, requests = state.setup, state.requests
    price = price_of(setup.catalog)
    runner = ToolRunner(
        registry=lambda: state.registry,
        permissions=setup.permissions,
        questions=state.questions,
        hooks=state.hooks,
        ids=setup.ids,
        clock=setup.clock,
        workspace=setup.extensions.workspace,
        small_model=lambda emit: SideQuestions(setup.provider, requests, price, emit, exit.emit_soon),
        agents=lambda emit: CallAgents(state.agents, emit, CallHooks(exit.emit_soon, controller.abort)),
        before_effects=state.log.begin_effects,
        on_interrupting_denial=controller.abort,
        render=PluginRenderers(setup.plugins).render if setup.plugins is not None else None,
    )
    turn = TurnDependencies(
        provider=setup.provider,
        runner=runner,
        price=price,
        ids=setup.ids,
        clock=setup.clock,
        executor=state.settings.tuning.executor,
        concurrency=state.settings.tuning.concurrency,
        keep=state.log.keep,
        beside=(state.agents, *((state.server_questions,) if state.server_questions is not None else ())),
    )
    overhead = requests.overhead_tokens()
    compaction = CompactionDependencies(
        setup.provider,
        requests,
        setup.view,
        state.hooks,
        price,
        setup.ids,
        exit.emit,
        overhead,
        window=state.settings.context_limits(overhead).window,
        pinned=setup.pins,
        restore_from=restore_sources(
            state.registry.get("Read"), setup.permissions, state.tool_context, setup.definitions
        ),
        whole=None if state.log.is_whole else state.log.whole,
    )
    attachments = Composite(state.user_notes, state.attachments)
    return LoopDependencies(
        turn=turn,
        compaction=compaction,
        extensions=replace(setup.extensions, attachments=attachments, hooks=state.hooks),
        settings=state.settings,
        context=state.context,
        queue=state.queue,
        mentions=mentions_for(setup, state.questions),
        watch=setup.watch,
        pipeline=setup.pipeline,
        ask_about_budget=lambda: ask_about_budget(state, controller, exit.emit),
        budget_text=lambda: state.costs.budget_text,
        summaries=Summaries(setup.provider, requests, price) if state.settings.tuning.tool_summaries else None,
        exit=exit,
        runs_background=lambda: state.background.any_runs,
        detach_hook=state.detach_hook,
    )


def mentions_for(setup: EngineSetup, questions: Questions) -> Mentions | None:
    """Attaches mentioned files; None without a tool that reads."""
    read = setup.registry.get("Read")
    return Mentions(read, setup.permissions, questions, setup.ids, setup.mcp) if read is not None else None


async def ask_about_budget(state: ConversationState, controller: AbortController, emit: EmitEvent) -> None:
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
        await question.ask(emit)
    finally:
        state.costs.budget_lock.release()
    if question.stops:
        controller.abort(AbortReason.BUDGET)
