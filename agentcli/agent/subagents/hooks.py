"""The session's hooks, as an agent's loop calls them."""

from __future__ import annotations

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
from agentcli.core.messages import Json, Origin, ToolResultBlock, ToolUseBlock


class AgentHooks(Hooks):
    """An agent begins and ends with hooks of its own kind; around its tools the session's are called."""

    def __init__(self, inner: Hooks, agent: str, name: str) -> None:
        self._inner = inner
        self._agent = agent
        self._name = name

    def reporting_to(self, emit: EmitEvent) -> AgentHooks:
        return AgentHooks(self._inner.reporting_to(emit), self._agent, self._name)

    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict:
        return await self._inner.before_tool(call, input)

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        return await self._inner.after_tool(call, input, result)

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        return await self._inner.after_refused_tool(call, text)

    async def before_question(self, call: ToolUseBlock, input: Json) -> QuestionVerdict:
        return await self._inner.before_question(call, input)

    @property
    def checks_prompts(self) -> bool:
        return False

    async def before_prompt(self, text: str) -> PromptVerdict:
        return PromptVerdict(await self._inner.before_agent(self._agent, self._name, text))

    async def before_stop(self, state: LoopState) -> StopVerdict:
        replies = (message.text for message in reversed(state.messages) if message.origin is Origin.REPLY)
        return await self._inner.after_agent(
            self._agent, self._name, next(replies, ""), is_active=state.stop_hook_active
        )

    async def before_compact(self, trigger: str, focus: str) -> str | None:
        return await self._inner.before_compact(trigger, focus)

    def attention_needed(self, kind: str, text: str) -> None:
        self._inner.attention_needed(kind, text)

    async def after_compact(self, trigger: str) -> None:
        await self._inner.after_compact(trigger)
