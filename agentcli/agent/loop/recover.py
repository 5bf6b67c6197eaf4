"""The I/O around the decision: find the facts that `decide` needs, and add the messages of each transition and
terminal."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from agentcli.agent.context.compaction import Compaction
from agentcli.agent.loop import wording as words
from agentcli.agent.loop.decide import Find, LoopVerdict, Repetition, TurnOutcome
from agentcli.agent.loop_state import Continue, EndReason, LoopState, Stop, Transition, next_state
from agentcli.agent.ports import HookVerdict, Priority, QueuedPrompt, UserQuestion, ask_hooks, hook_message
from agentcli.agent.session import Session
from agentcli.context.compact import find_pinned
from agentcli.core import events as ev
from agentcli.core.aio import Aborted, AbortReason, AbortSignal
from agentcli.core.ids import Ids
from agentcli.core.messages import ATTACHMENT, EXTENDS_ANSWER, Message, Origin, user_message
from agentcli.core.text.plaintext import plain_line

_TITLE_LIMIT = 200


async def find_fact(
    session: Session, state: LoopState, outcome: TurnOutcome, find: Find, signal: AbortSignal
) -> tuple[LoopState, TurnOutcome]:
    """Find out one fact for the decision. Returns the state, and the outcome with the fact in it."""
    match find.fact:
        case "collapse_drain":
            edited = session.collapser.drain(state.messages, find_pinned(state.messages, session.pins))
            if edited is not None:
                await session.emit(edited)
            outcome = replace(outcome, collapses_committed=len(edited.edits) if edited else 0)
        case "reactive_compact":
            return await _compact(session, state, outcome, signal)
        case "loop_verdict":
            verdict = await _ask_about_loop(session, outcome.repetition, signal) if outcome.repetition else None
            aborted: dict[str, Any] = {} if verdict else {"aborted": signal.reason, "aborted_in": "tools"}
            outcome = replace(outcome, loop_verdict=verdict, **aborted)
        case "stop_hooks":
            try:
                answer = await ask_hooks(session.hooks, lambda hooks: hooks.before_stop(state), signal, session.emit)
                outcome = replace(outcome, stop_hooks=answer)
                if (recorded := asdict(answer)) != asdict(HookVerdict()):
                    session.store.note_input("stop-hook", recorded)
            except Aborted as abort:
                outcome = replace(outcome, aborted=abort.reason)
        case "queued_prompts":
            taken = await take_prompts(session, state, "later", signal)
            return taken, replace(outcome, prompts_taken=taken is not state, aborted=signal.reason)
    return state, outcome


async def _compact(
    session: Session, state: LoopState, outcome: TurnOutcome, signal: AbortSignal
) -> tuple[LoopState, TurnOutcome]:
    compaction = Compaction(session, "reactive", state.messages, signal, budget_spent=state.budget_spent)
    await compaction.run()
    state = replace(state.adding(*compaction.messages), reactive_compact_attempted=True)
    if compaction.messages:
        state = state.with_budget_carried(outcome.output_tokens)
        for message in await session.collect_attachments(state, signal):
            state = await _add(session, state, message)
    compacted = bool(compaction.messages)
    return state, replace(outcome, compacted=compacted, summary=compaction.summary, aborted=signal.reason)


async def _ask_about_loop(session: Session, found: Repetition, signal: AbortSignal) -> LoopVerdict | None:
    """Report a repetition; ask the user whether it may continue if nothing can change. None: aborted."""
    title = plain_line(session.runner.title(found.call.name, found.call.input), _TITLE_LIMIT)
    asks = session.questions.interactive and not found.can_change
    request_id = session.ids.new() if asks else ""
    name, times, seconds = found.call.name, found.times, found.seconds
    await session.emit(ev.LoopSuspected(request_id=request_id, name=name, title=title, times=times, seconds=seconds))
    if not asks:
        return LoopVerdict("polling" if found.can_change else "unattended")
    # An ordinary permission request, so that every front end can show it.
    question = ev.PermissionRequested(
        request_id=request_id,
        tool_use_id="",
        name="Loop guard",
        input={},
        title=title,
        reason="The agent seems to be stuck in a loop. Yes continues, no stops this task.",
        display={"kind": "loop", "text": f"{title}: the same result {times} times in a row."},
    )
    answer = await UserQuestion(question, session.questions, signal).ask(session.emit)
    if answer is None:
        return None
    session.note_answer(answer)
    # A refusal with a message means to stop this and do something else, so the model continues.
    if answer.behavior == "allow" or (answer.message.strip() and not answer.interrupt):
        return LoopVerdict("continue", answer.message.strip())
    return LoopVerdict("stop")


async def take_prompts(session: Session, state: LoopState, most: Priority, signal: AbortSignal) -> LoopState:
    """Move queued prompts to the log. Each moves at its own event: an abort at any other point leaves it queued.
    Returns the same state if none was taken."""
    queue = session.queue
    while (prompt := queue.first(most)) is not None:
        state = await _take_prompt(session, state, prompt, signal)
        if queue.first(most) is prompt:
            break  # an abort has left it queued
    return state


async def _take_prompt(session: Session, state: LoopState, prompt: QueuedPrompt, signal: AbortSignal) -> LoopState:
    """Move a queued prompt to the log, unless hooks block it."""
    queue, emit, hooks = session.queue, session.emit, session.hooks
    try:
        verdict = await ask_hooks(hooks, lambda hooks: hooks.before_prompt(prompt.text), signal, emit)
    except Aborted:
        return state
    if prompt.id not in queue.ids:
        return state  # the user has withdrawn it in the meantime
    if verdict.stop is not None:
        queue.remove(prompt.id)
        await emit(ev.NoticeRaised(text=words.prompt_blocked(verdict.stop), level="warning", code="hook"))
        return state
    state = await _add(session, state, Message("user", prompt.content, prompt.id, Origin.QUEUED))
    queue.remove(prompt.id)
    if verdict.context:
        state = await _add(session, state, hook_message(verdict.context, session.ids.new()))
    mentions = session.mentions()
    if mentions is None:
        return state
    text = prompt.text if prompt.mentions is None else prompt.mentions
    # Without asking: a question would hold up the running work.
    attached = await mentions.attach(text, state.tool_context, emit, signal, may_ask=False)
    return state.adding(*attached)


async def _add(session: Session, state: LoopState, message: Message) -> LoopState:
    await session.emit(ev.MessageAppended(message=message))
    return state.adding(message)


async def continue_loop(
    session: Session, state: LoopState, outcome: TurnOutcome, decision: Continue, signal: AbortSignal
) -> LoopState:
    """Add what the next request needs to the log (SPEC 2.6): recovery messages, queued prompts, attachments. Returns
    the state of the next iteration."""
    before, transition = state, decision.transition
    has_results = transition is Transition.NEXT_TURN and bool(outcome.tool_results)
    if has_results and (summary := session.summaries.start(outcome.added, signal)) is not None:
        state = state.with_summary(summary)
    for message in transition_messages(decision, before, outcome, session.ids):
        state = await _add(session, state, message)
    if has_results or transition in (Transition.STOP_HOOK_BLOCKING, Transition.TOKEN_BUDGET_CONTINUATION):
        state = await take_prompts(session, state, "next", signal)
    if has_results or decision.data.get("reason") == "queued_prompts":
        for message in await session.collect_attachments(before, signal):
            state = await _add(session, state, message)
    state = next_state(state, decision, outcome.output_tokens)
    await session.emit(ev.LoopContinued(transition=transition.value, turn=state.turn_count, data=dict(decision.data)))
    return state


async def end_loop(session: Session, state: LoopState, outcome: TurnOutcome, stop: Stop) -> None:
    """Add the messages of a terminal to the log, end the background work and emit `LoopEnded`."""
    emit, failure = session.emit, outcome.failure
    for prompt in list_refused_prompts(state) if outcome.refused is not None else ():
        session.view.repair("leave_out_prompt", prompt)
        await emit(ev.RequestRepaired(repair="leave_out_prompt", through=prompt, text=stop.text))
    failed = stop.terminal is EndReason.PROMPT_TOO_LONG or failure is not None
    if failed and outcome.aborted is None:
        session.detach_hook(session.hooks.after_failure(stop.text))
    for message in terminal_messages(stop, outcome, session.ids):
        await emit(ev.MessageAppended(message=message))
    await session.end_background_work()
    for ready in state.take_summaries():
        await emit(ready)
    # The turn count begins at the last prompt; a result has the turns of its own submission.
    turns = state.turn_count - session.wakes.turns
    session.wakes.turns = state.turn_count
    await emit(
        ev.LoopEnded(
            terminal=stop.terminal.value,
            turns=turns,
            text=stop.text,
            status=failure.status if failure else None,
            stop_reason=outcome.stop_reason,
            retryable=bool(failure and failure.retryable),
            final=outcome.final,
        )
    )


def transition_messages(decision: Continue, state: LoopState, outcome: TurnOutcome, ids: Ids) -> tuple[Message, ...]:
    """The messages of agentcli to the model that a transition needs."""
    match decision.transition:
        case Transition.COLLAPSE_DRAIN_RETRY | Transition.REACTIVE_COMPACT_RETRY if outcome.context_exceeded:
            replies = (m for m in reversed(state.messages) if m.origin is Origin.REPLY and not m.is_copy)
            cut = next(replies, None)
            if cut is None or cut.stop_reason != "model_context_window_exceeded":
                return ()  # The reply had no text and was not kept.
            text = words.context_recovery(cut.text)
        case Transition.MAX_OUTPUT_TOKENS_RECOVERY:
            text = words.OUTPUT_RECOVERY
        case Transition.TOKEN_BUDGET_CONTINUATION:
            text = words.token_budget(decision.data["remaining"])
            return (user_message(text, ids.new(), Origin.RECOVERY, {EXTENDS_ANSWER: True}),)
        case Transition.STOP_HOOK_BLOCKING if decision.data.get("by") == "schema":
            text = "\n".join(decision.data["errors"])
        case Transition.STOP_HOOK_BLOCKING:
            return (user_message(words.stop_hook(decision.data["errors"]), ids.new(), Origin.HOOK),)
        case Transition.NEXT_TURN if decision.data.get("reason") == "empty_reply":
            text = words.EMPTY_REPLY
        case Transition.NEXT_TURN if decision.data.get("loop") == "told":
            text = words.repeated(decision.data["name"], decision.data["times"])
        case Transition.NEXT_TURN if decision.data.get("loop") == "polling":
            text = words.polled(decision.data["name"], decision.data["times"], decision.data["seconds"])
        case Transition.NEXT_TURN if decision.data.get("said"):
            return (user_message(decision.data["said"], ids.new(), Origin.QUEUED),)
        case _:
            return ()
    return (user_message(text, ids.new(), Origin.RECOVERY),)


def terminal_messages(stop: Stop, outcome: TurnOutcome, ids: Ids) -> tuple[Message, ...]:
    """The messages that a terminal leaves in the log (the last column of SPEC 2.7's table)."""
    match stop.terminal:
        case EndReason.COMPLETED | EndReason.MAX_BUDGET_USD:
            return ()
        case EndReason.ABORTED_STREAMING | EndReason.ABORTED_TOOLS:
            if outcome.aborted is AbortReason.INTERRUPT:
                return ()
            in_tools = stop.terminal is EndReason.ABORTED_TOOLS
            text = words.INTERRUPTED_TOOLS if in_tools else words.INTERRUPTED
            text = words.CLOSED if outcome.aborted is AbortReason.SHUTDOWN else text
            return (user_message(text, ids.new(), Origin.INTERRUPTION),)
        case EndReason.MAX_TURNS:
            reached = {ATTACHMENT: dict(stop.attachment)}
            return (user_message(f"[{stop.text}]", ids.new(), Origin.ATTACHMENT, reached),)
        case _:
            meta = {"terminal": stop.terminal.value, "kind": outcome.failure.kind.value if outcome.failure else ""}
            return (user_message(stop.text, ids.new(), Origin.ERROR, meta),)


def list_refused_prompts(state: LoopState) -> list[str]:
    """Ids of this submission's prompts: the model declined one of them, so none is sent again unchanged."""
    ids = []
    for message in reversed(state.messages):
        if message.origin in (Origin.PROMPT, Origin.QUEUED):
            ids.append(message.id)
        if message.origin is Origin.PROMPT:
            break
    return ids
