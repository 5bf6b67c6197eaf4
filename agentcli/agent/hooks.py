"""Await hooks in a stage of the loop; wrap texts of hooks in a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import (
    END_SECONDS,
    EmitEvent,
    Hooks,
    PostToolVerdict,
    PreToolVerdict,
    PromptVerdict,
    QuestionVerdict,
    StopVerdict,
)
from agentcli.core.abort import AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.events import Event
from agentcli.core.messages import Json, Message, Origin, ToolResultBlock, ToolUseBlock, user_message
from agentcli.hooks.answers import HookAnswer
from agentcli.hooks.runner import HookRun, HookRunner, Occasion

T = TypeVar("T")


async def ask_hooks(
    hooks: Hooks, call: Callable[[Hooks], Coroutine[Any, Any, T]], signal: AbortSignal, emit: EmitEvent
) -> T:
    """The verdict of `call`, which gets the hooks to run; emits what they report meanwhile. Raises `Aborted`."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    reporting = hooks.reporting_to(events.put)
    if reporting is hooks:
        return await signal.run(call(hooks))
    task = start_task(signal.run(call(reporting)))
    task.add_done_callback(lambda _task: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            await emit(event)
        return await task
    finally:
        await cancel_and_wait([task])
        if not task.cancelled():
            task.exception()  # retrieved even if the consumer has gone


def hook_message(texts: Iterable[str], message_id: str) -> Message:
    """A message with the texts of hooks, separated by blank lines: a model reads adjacent blocks as one text."""
    return user_message("\n\n".join(texts), message_id, Origin.HOOK)


_MOST_KEPT = 100


@dataclass(slots=True)
class _Beside:
    """Events and tasks of hooks that run outside of a submission."""

    events: list[Event] = field(default_factory=list)
    """Reported with the next hook of a submission."""
    tasks: set[asyncio.Task[list[HookAnswer]]] = field(default_factory=set)


class ConfiguredHooks(Hooks):
    def __init__(
        self,
        runner: HookRunner,
        inner: Hooks | None = None,
        emit: EmitEvent | None = None,
        beside: _Beside | None = None,
    ) -> None:
        self.runner = runner
        self._inner = inner or Hooks()
        self._emit = emit
        self._beside = beside or _Beside()

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        self._inner.bind(describe, ())
        self.runner.described = describe
        self.runner.remember(runs)

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        return ConfiguredHooks(self.runner, self._inner.reporting_to(emit), emit, self._beside)

    # ------------------------------------------------------------------------------------------------- the session

    async def before_session(self, source: str) -> tuple[str, ...]:
        texts = await self._inner.before_session(source)
        return (*texts, *_contexts(await self._run(Occasion("SessionStart", source, {"source": source}))))

    async def after_session(self, reason: str) -> None:
        await self._inner.after_session(reason)
        await self._run(Occasion("SessionEnd", reason, {"reason": reason}, longest=END_SECONDS))

    @property
    def checks_prompts(self) -> bool:
        return self.runner.has("UserPromptSubmit") or self._inner.checks_prompts

    async def before_prompt(self, text: str) -> PromptVerdict:
        own = await self._inner.before_prompt(text)
        if own.blocked is not None:
            return own
        answers = await self._run(Occasion("UserPromptSubmit", fields={"prompt": text}))
        refusals = [*_reasons(answers), *(answer.stop for answer in answers if answer.stop is not None)]
        return PromptVerdict((*own.context, *_contexts(answers)), "\n".join(refusals) if refusals else None)

    async def before_stop(self, state: LoopState) -> StopVerdict:
        own = await self._inner.before_stop(state)
        if own.errors or own.prevented is not None:
            return own
        last = next((m.text for m in reversed(state.messages) if m.origin is Origin.REPLY), "")
        fields = {"stop_hook_active": state.stop_hook_active, "last_assistant_message": last}
        return _stop(await self._run(Occasion("Stop", fields=fields)))

    async def after_failure(self, text: str) -> None:
        await self._inner.after_failure(text)
        await self._run(Occasion("StopFailure", fields={"error": text}))

    def attention_needed(self, kind: str, text: str) -> None:
        self._inner.attention_needed(kind, text)
        if not self.runner.has("Notification"):
            return
        occasion = Occasion("Notification", kind, {"message": text, "notification_type": kind})
        task = start_task(self.runner.run(occasion, self._keep))
        self._beside.tasks.add(task)
        task.add_done_callback(self._beside.tasks.discard)

    # --------------------------------------------------------------------------------------------------- tool calls

    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict:
        own = await self._inner.before_tool(call, input)
        if own.decision == "deny":
            return own
        seen = input if own.updated_input is None else own.updated_input
        answers = await self._run(_about_call("PreToolUse", call, seen))
        verdict = _pre_tool(answers)
        stronger = own if _STRENGTH.index(own.decision) > _STRENGTH.index(verdict.decision) else verdict
        updated = own.updated_input if verdict.updated_input is None else verdict.updated_input
        context = (*own.context, *(f"A hook adds, before {call.name}: {text}" for text in verdict.context))
        return PreToolVerdict(stronger.decision, stronger.reason, updated, context, own.stop or verdict.stop)

    async def before_question(self, call: ToolUseBlock, input: Json) -> QuestionVerdict:
        own = await self._inner.before_question(call, input)
        if own.decision != "none":
            return own
        answers = await self._run(_about_call("PermissionRequest", call, input))
        for answer in answers:
            if answer.decision == "deny":
                return QuestionVerdict("deny", _denial(answer.reason), interrupt=answer.interrupt)
        for answer in answers:
            if answer.decision == "allow":
                return QuestionVerdict("allow", answer.reason, answer.updated_input)
        return QuestionVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        own = await self._inner.after_tool(call, input, result)
        if result.is_error:
            occasion = _about_call("PostToolUseFailure", call, input, {"error": result.text})
        else:
            response = {"content": result.text, "is_error": False}
            occasion = _about_call("PostToolUse", call, input, {"tool_response": response})
        return _post_tool(call, own, await self._run(occasion))

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        own = await self._inner.after_refused_tool(call, text)
        occasion = _about_call("PostToolUseFailure", call, call.input, {"error": text})
        return _post_tool(call, own, await self._run(occasion))

    # ------------------------------------------------------------------------------------ sub-agents and compaction

    async def before_agent(self, agent_id: str, name: str, prompt: str) -> tuple[str, ...]:
        texts = await self._inner.before_agent(agent_id, name, prompt)
        fields = {"agent_id": agent_id, "agent_type": name, "prompt": prompt}
        return (*texts, *_contexts(await self._run(Occasion("SubagentStart", name, fields))))

    async def after_agent(self, agent_id: str, name: str, text: str, *, is_active: bool = False) -> StopVerdict:
        own = await self._inner.after_agent(agent_id, name, text, is_active=is_active)
        if own.errors or own.prevented is not None:
            return own
        fields = {"agent_id": agent_id, "agent_type": name, "stop_hook_active": is_active}
        return _stop(await self._run(Occasion("SubagentStop", name, {**fields, "last_assistant_message": text})))

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        wanted = await self._inner.before_compact(trigger, focus)
        if wanted is None:
            return None
        shown = _trigger(trigger)
        fields = {"trigger": shown, "custom_instructions": wanted}
        answers = await self._run(Occasion("PreCompact", shown, fields))
        if any(answer.blocked or answer.stop is not None for answer in answers):
            return None
        return "\n".join(filter(None, (wanted, *_contexts(answers))))

    async def after_compact(self, trigger: str) -> None:
        await self._inner.after_compact(trigger)
        shown = _trigger(trigger)
        await self._run(Occasion("PostCompact", shown, {"trigger": shown}))

    # ---------------------------------------------------------------------------------------------------- plumbing

    def listing(self) -> Iterable[HookRun]:
        return self.runner.listing()

    async def aclose(self) -> None:
        await self._inner.aclose()
        await cancel_and_wait(list(self._beside.tasks))

    async def _run(self, occasion: Occasion) -> list[HookAnswer]:
        emit = self._emit
        while emit is not None and self._beside.events:
            await emit(self._beside.events.pop(0))
        return await self.runner.run(occasion, emit or self._keep) if self.runner.has(occasion.event) else []

    async def _keep(self, event: Event) -> None:
        if len(self._beside.events) < _MOST_KEPT:
            self._beside.events.append(event)


_STRENGTH = ("none", "allow", "ask", "deny")


def _about_call(event: str, call: ToolUseBlock, input: Json, more: Json | None = None) -> Occasion:
    fields = {"tool_name": call.name, "tool_input": input, "tool_use_id": call.id, **(more or {})}
    return Occasion(event, call.name, fields, call.id)


def _pre_tool(answers: Sequence[HookAnswer]) -> PreToolVerdict:
    stop = next((answer.stop for answer in answers if answer.stop is not None), None)
    updated = next((answer.updated_input for answer in reversed(answers) if answer.updated_input is not None), None)
    contexts = _contexts(answers)
    if stop is not None:
        return PreToolVerdict("deny", stop, context=contexts, stop=stop)
    for decision in ("deny", "ask", "allow"):
        reasons = [answer.reason for answer in answers if answer.decision == decision]
        if decision == "ask":
            reasons += [f"A hook could not decide: {answer.text}." for answer in answers if answer.failed]
        if reasons:
            reason = "\n".join(dict.fromkeys(filter(None, reasons)))
            return PreToolVerdict(decision, _denial(reason) if decision == "deny" else reason, updated, contexts)
    return PreToolVerdict(updated_input=updated, context=contexts)


def _denial(reason: str) -> str:
    """Text for the model, which would take a bare reason for a message of the tool."""
    return f"A hook denied this call: {reason}" if reason else ""


def _post_tool(call: ToolUseBlock, own: PostToolVerdict, answers: Sequence[HookAnswer]) -> PostToolVerdict:
    objections = [f"A hook objects to the result of {call.name}: {reason}" for reason in _reasons(answers)]
    stop = next((answer.stop for answer in answers if answer.stop is not None), own.stop)
    by = own.by if own.stop is not None else "hook"
    added = (f"A hook adds, after {call.name}: {text}" for text in _contexts(answers))
    return PostToolVerdict(stop, (*own.context, *objections, *added), by)


def _stop(answers: Sequence[HookAnswer]) -> StopVerdict:
    stop = next((answer.stop for answer in answers if answer.stop is not None), None)
    return StopVerdict(prevented=stop) if stop is not None else StopVerdict(tuple(_reasons(answers)))


def _reasons(answers: Sequence[HookAnswer]) -> list[str]:
    return [answer.reason for answer in answers if answer.blocked]


def _contexts(answers: Sequence[HookAnswer]) -> tuple[str, ...]:
    return tuple(answer.context for answer in answers if answer.context)


def _trigger(trigger: str) -> str:
    """The trigger as hooks know it: a compaction is manual or automatic."""
    return "manual" if trigger == "manual" else "auto"


class WrappedHooks(Hooks):
    def __init__(self, inner: Hooks) -> None:
        self._inner = inner

    def around(self, inner: Hooks) -> Hooks:
        """An equal wrapper around other hooks."""
        raise NotImplementedError

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        inner = self._inner.reporting_to(emit)
        return self if inner is self._inner else self.around(inner)

    @property
    def watches_tools(self) -> bool:
        kind = type(self)
        overrides = kind.before_tool is not WrappedHooks.before_tool or kind.after_tool is not WrappedHooks.after_tool
        return overrides or self._inner.watches_tools

    @property
    def checks_prompts(self) -> bool:
        return self._inner.checks_prompts


def _passing_on(name: str) -> Callable[..., Any]:
    def method(self: WrappedHooks, *args: Any, **named: Any) -> Any:
        return getattr(self._inner, name)(*args, **named)

    return method


for _name, _member in vars(Hooks).items():
    if callable(_member) and _name not in vars(WrappedHooks) and not _name.startswith("_"):
        setattr(WrappedHooks, _name, _passing_on(_name))
