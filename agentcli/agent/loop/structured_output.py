"""Keeps a submission going until it has a structured output, within reason (`--json-schema`).

It sits in the hooks' seam: ending without the output blocks the stop; too many tries end the submission. Its verdicts
are marked as its own, so that neither the model nor the user reads of a hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import (
    EmitEvent,
    Hooks,
    PostToolVerdict,
    PreToolVerdict,
    PromptVerdict,
    QuestionVerdict,
    StopVerdict,
)
from agentcli.core.messages import Json, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from agentcli.hooks.runner import HookRun

MAX_TRIES = 5


@dataclass(slots=True)
class _Tries:
    misses: int = 0


class RequireOutput(Hooks):
    """Hooks around other hooks. The count starts again with each prompt."""

    def __init__(self, inner: Hooks, tool_name: str, tries: _Tries | None = None) -> None:
        self._inner = inner
        self._tool_name = tool_name
        self._tries = tries or _Tries()

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        self._inner.bind(describe, runs)

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        inner = self._inner.reporting_to(emit)
        return self if inner is self._inner else RequireOutput(inner, self._tool_name, self._tries)

    async def before_session(self, source: str) -> tuple[str, ...]:
        return await self._inner.before_session(source)

    async def after_session(self, reason: str) -> None:
        await self._inner.after_session(reason)

    async def before_question(self, call: ToolUseBlock, input: Json) -> QuestionVerdict:
        return await self._inner.before_question(call, input)

    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict:
        return await self._inner.before_tool(call, input)

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        verdict = await self._inner.after_tool(call, input, result)
        return self._counted(call, verdict) if result.is_error else verdict

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        return self._counted(call, await self._inner.after_refused_tool(call, text))

    def _counted(self, call: ToolUseBlock, verdict: PostToolVerdict) -> PostToolVerdict:
        if call.name != self._tool_name:
            return verdict
        self._tries.misses += 1
        if self._tries.misses < MAX_TRIES:
            return verdict
        return PostToolVerdict(f"No output that fits the schema after {MAX_TRIES} tries.", verdict.context, "schema")

    @property
    def checks_prompts(self) -> bool:
        return self._inner.checks_prompts

    async def before_prompt(self, text: str) -> PromptVerdict:
        self._tries.misses = 0
        return await self._inner.before_prompt(text)

    async def before_stop(self, state: LoopState) -> StopVerdict:
        verdict = await self._inner.before_stop(state)
        if verdict.errors or verdict.prevented is not None:
            return verdict
        self._tries.misses += 1
        if self._tries.misses >= MAX_TRIES:
            return StopVerdict(prevented=f"No call of {self._tool_name} after {MAX_TRIES} tries.", by="schema")
        return StopVerdict(errors=(f"Give your answer by calling the tool {self._tool_name}.",), by="schema")

    async def after_failure(self, text: str) -> None:
        await self._inner.after_failure(text)

    async def before_agent(self, agent_id: str, name: str, prompt: str) -> tuple[str, ...]:
        return await self._inner.before_agent(agent_id, name, prompt)

    async def after_agent(self, agent_id: str, name: str, text: str, *, is_active: bool = False) -> StopVerdict:
        return await self._inner.after_agent(agent_id, name, text, is_active=is_active)

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        return await self._inner.before_compact(trigger, focus)

    async def after_compact(self, trigger: str) -> None:
        await self._inner.after_compact(trigger)

    def attention_needed(self, kind: str, text: str) -> None:
        self._inner.attention_needed(kind, text)

    def listing(self) -> Iterable[HookRun]:
        return self._inner.listing()

    async def aclose(self) -> None:
        await self._inner.aclose()
