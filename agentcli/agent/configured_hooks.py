"""Hooks of the settings and of plugins for the loop: each method runs the hooks of its event and joins their answers;
and the hook that requires structured output (`--json-schema`).

Deny is stronger than ask, ask is stronger than allow; contexts are joined in the order of the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import END_SECONDS, EmitEvent, Hooks, HookVerdict
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.events import Event
from agentcli.core.messages import Json, Origin, ToolResultBlock, ToolUseBlock
from agentcli.hooks.answers import HookAnswer
from agentcli.hooks.runner import HookRun, HookRunner, Occasion

_MAX_KEPT = 100


@dataclass(slots=True)
class _Detached:
    """Events and tasks of hooks that run outside of a submission."""

    events: list[Event] = field(default_factory=list)
    """Reported with the next hook of a submission."""
    tasks: set[asyncio.Task[list[HookAnswer]]] = field(default_factory=set)


class ConfiguredHooks(Hooks):
    def __init__(self, runner: HookRunner, emit: EmitEvent | None = None, detached: _Detached | None = None) -> None:
        self.runner = runner
        self._emit = emit
        self._detached = detached or _Detached()

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        self.runner.described = describe
        self.runner.remember(runs)

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        return ConfiguredHooks(self.runner, emit, self._detached)

    # ------------------------------------------------------------------------------------------------- the session

    async def before_session(self, source: str) -> tuple[str, ...]:
        return _contexts(await self._run(Occasion("SessionStart", source, {"source": source})))

    async def after_session(self, reason: str) -> None:
        await self._run(Occasion("SessionEnd", reason, {"reason": reason}, longest=END_SECONDS))

    @property
    def checks_prompts(self) -> bool:
        return self.runner.has("UserPromptSubmit")

    async def before_prompt(self, text: str) -> HookVerdict:
        answers = await self._run(Occasion("UserPromptSubmit", fields={"prompt": text}))
        refusals = [*_reasons(answers), *(answer.stop for answer in answers if answer.stop is not None)]
        return HookVerdict(context=_contexts(answers), stop="\n".join(refusals) if refusals else None)

    async def before_stop(self, state: LoopState) -> HookVerdict:
        last = next((m.text for m in reversed(state.messages) if m.origin is Origin.REPLY), "")
        fields = {"stop_hook_active": state.stop_hook_active, "last_assistant_message": last}
        return _stop(await self._run(Occasion("Stop", fields=fields)))

    async def after_failure(self, text: str) -> None:
        await self._run(Occasion("StopFailure", fields={"error": text}))

    def attention_needed(self, kind: str, text: str) -> None:
        if not self.runner.has("Notification"):
            return
        occasion = Occasion("Notification", kind, {"message": text, "notification_type": kind})
        task = start_task(self.runner.run(occasion, self._keep))
        self._detached.tasks.add(task)
        task.add_done_callback(self._detached.tasks.discard)

    # --------------------------------------------------------------------------------------------------- tool calls

    @property
    def watches_tools(self) -> bool:
        return any(map(self.runner.has, ("PreToolUse", "PostToolUse", "PostToolUseFailure")))

    async def before_tool(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        verdict = _pre_tool(await self._run(_about_call("PreToolUse", call, input)))
        return replace(verdict, context=tuple(f"A hook adds, before {call.name}: {text}" for text in verdict.context))

    async def before_question(self, call: ToolUseBlock, input: Json) -> HookVerdict:
        answers = await self._run(_about_call("PermissionRequest", call, input))
        for answer in answers:
            if answer.decision == "deny":
                return HookVerdict("deny", _denial(answer.reason), interrupt=answer.interrupt)
        for answer in answers:
            if answer.decision == "allow":
                return HookVerdict("allow", answer.reason, answer.updated_input)
        return HookVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        if result.is_error:
            occasion = _about_call("PostToolUseFailure", call, input, {"error": result.text})
        else:
            response = {"content": result.text, "is_error": False}
            occasion = _about_call("PostToolUse", call, input, {"tool_response": response})
        return _post_tool(call, await self._run(occasion))

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        occasion = _about_call("PostToolUseFailure", call, call.input, {"error": text})
        return _post_tool(call, await self._run(occasion))

    # ------------------------------------------------------------------------------------ sub-agents and compaction

    async def before_agent(self, agent_id: str, name: str, prompt: str) -> tuple[str, ...]:
        fields = {"agent_id": agent_id, "agent_type": name, "prompt": prompt}
        return _contexts(await self._run(Occasion("SubagentStart", name, fields)))

    async def after_agent(self, agent_id: str, name: str, text: str, *, is_active: bool = False) -> HookVerdict:
        fields = {"agent_id": agent_id, "agent_type": name, "stop_hook_active": is_active}
        return _stop(await self._run(Occasion("SubagentStop", name, {**fields, "last_assistant_message": text})))

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        shown = _trigger(trigger)
        fields = {"trigger": shown, "custom_instructions": focus}
        answers = await self._run(Occasion("PreCompact", shown, fields))
        if any(answer.blocked or answer.stop is not None for answer in answers):
            return None
        return "\n".join(filter(None, (focus, *_contexts(answers))))

    async def after_compact(self, trigger: str) -> None:
        shown = _trigger(trigger)
        await self._run(Occasion("PostCompact", shown, {"trigger": shown}))

    # ---------------------------------------------------------------------------------------------------- plumbing

    def listing(self) -> Iterable[HookRun]:
        return self.runner.listing()

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._detached.tasks))

    async def _run(self, occasion: Occasion) -> list[HookAnswer]:
        emit = self._emit
        while emit is not None and self._detached.events:
            await emit(self._detached.events.pop(0))
        return await self.runner.run(occasion, emit or self._keep) if self.runner.has(occasion.event) else []

    async def _keep(self, event: Event) -> None:
        if len(self._detached.events) < _MAX_KEPT:
            self._detached.events.append(event)


def _about_call(event: str, call: ToolUseBlock, input: Json, more: Json | None = None) -> Occasion:
    fields = {"tool_name": call.name, "tool_input": input, "tool_use_id": call.id, **(more or {})}
    return Occasion(event, call.name, fields, call.id)


def _pre_tool(answers: Sequence[HookAnswer]) -> HookVerdict:
    stop = _first_stop(answers)
    updated = next((answer.updated_input for answer in reversed(answers) if answer.updated_input is not None), None)
    contexts = _contexts(answers)
    if stop is not None:
        return HookVerdict("deny", stop, context=contexts, stop=stop)
    for decision in ("deny", "ask", "allow"):
        reasons = [answer.reason for answer in answers if answer.decision == decision]
        if decision == "ask":
            reasons += [f"A hook could not decide: {answer.text}." for answer in answers if answer.failed]
        if reasons:
            reason = "\n".join(dict.fromkeys(filter(None, reasons)))
            return HookVerdict(decision, _denial(reason) if decision == "deny" else reason, updated, contexts)
    return HookVerdict(updated_input=updated, context=contexts)


def _denial(reason: str) -> str:
    """Text for the model, which would take a bare reason for a message of the tool."""
    return f"A hook denied this call: {reason}" if reason else ""


def _post_tool(call: ToolUseBlock, answers: Sequence[HookAnswer]) -> HookVerdict:
    objections = [f"A hook objects to the result of {call.name}: {reason}" for reason in _reasons(answers)]
    stop = _first_stop(answers)
    added = (f"A hook adds, after {call.name}: {text}" for text in _contexts(answers))
    return HookVerdict(context=(*objections, *added), stop=stop)


def _stop(answers: Sequence[HookAnswer]) -> HookVerdict:
    stop = _first_stop(answers)
    return HookVerdict(stop=stop) if stop is not None else HookVerdict(errors=tuple(_reasons(answers)))


def _first_stop(answers: Sequence[HookAnswer]) -> str | None:
    return next((answer.stop for answer in answers if answer.stop is not None), None)


def _reasons(answers: Sequence[HookAnswer]) -> list[str]:
    return [answer.reason for answer in answers if answer.blocked]


def _contexts(answers: Sequence[HookAnswer]) -> tuple[str, ...]:
    return tuple(answer.context for answer in answers if answer.context)


def _trigger(trigger: str) -> str:
    """The trigger as hooks know it: a compaction is manual or automatic."""
    return "manual" if trigger == "manual" else "auto"


MAX_TRIES = 5


class RequireOutput(Hooks):
    """Lets a submission end only after a call of this tool. The count of misses restarts with each prompt."""

    def __init__(self, tool_name: str) -> None:
        self._tool_name = tool_name
        self._misses = 0

    @property
    def checks_prompts(self) -> bool:
        return False

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> HookVerdict:
        return self._count(call) if result.is_error else HookVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> HookVerdict:
        return self._count(call)

    def _count(self, call: ToolUseBlock) -> HookVerdict:
        if call.name != self._tool_name:
            return HookVerdict()
        self._misses += 1
        if self._misses < MAX_TRIES:
            return HookVerdict()
        return HookVerdict(stop=f"Output did not match the schema in {MAX_TRIES} attempts.", by="schema")

    async def before_prompt(self, text: str) -> HookVerdict:
        self._misses = 0
        return HookVerdict()

    async def before_stop(self, state: LoopState) -> HookVerdict:
        self._misses += 1
        if self._misses >= MAX_TRIES:
            return HookVerdict(stop=f"{self._tool_name} was not called in {MAX_TRIES} attempts.", by="schema")
        return HookVerdict(errors=(f"Give your answer by calling the tool {self._tool_name}.",), by="schema")
