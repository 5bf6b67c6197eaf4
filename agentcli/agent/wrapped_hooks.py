"""Hooks around other hooks: whatever a subclass does not override is passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


class WrappedHooks(Hooks):
    def __init__(self, inner: Hooks) -> None:
        self._inner = inner

    def around(self, inner: Hooks) -> Hooks:
        """The same around other hooks."""
        raise NotImplementedError

    def bind(self, describe: Callable[[], Json], runs: Iterable[HookRun]) -> None:
        self._inner.bind(describe, runs)

    def reporting_to(self, emit: EmitEvent) -> Hooks:
        inner = self._inner.reporting_to(emit)
        return self if inner is self._inner else self.around(inner)

    async def before_session(self, source: str) -> tuple[str, ...]:
        return await self._inner.before_session(source)

    async def after_session(self, reason: str) -> None:
        await self._inner.after_session(reason)

    @property
    def watches_tools(self) -> bool:
        kind = type(self)
        overrides = kind.before_tool is not WrappedHooks.before_tool or kind.after_tool is not WrappedHooks.after_tool
        return overrides or self._inner.watches_tools

    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict:
        return await self._inner.before_tool(call, input)

    async def before_question(self, call: ToolUseBlock, input: Json) -> QuestionVerdict:
        return await self._inner.before_question(call, input)

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        return await self._inner.after_tool(call, input, result)

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        return await self._inner.after_refused_tool(call, text)

    @property
    def checks_prompts(self) -> bool:
        return self._inner.checks_prompts

    async def before_prompt(self, text: str) -> PromptVerdict:
        return await self._inner.before_prompt(text)

    async def before_stop(self, state: LoopState) -> StopVerdict:
        return await self._inner.before_stop(state)

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
