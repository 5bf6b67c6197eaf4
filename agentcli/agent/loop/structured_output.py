"""Keep a submission going until it has a structured output, up to a limit (`--json-schema`).

Implemented as hooks: ending without the output blocks the stop; too many tries end the submission. Its verdicts are
marked with `by="schema"`, so that neither the model nor the user reads about a hook.
"""

from __future__ import annotations

from agentcli.agent.hooks import WrappedHooks
from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import (
    Hooks,
    PostToolVerdict,
    PromptVerdict,
    StopVerdict,
)
from agentcli.core.frozen import slotted
from agentcli.core.messages import Json, ToolResultBlock, ToolUseBlock

MAX_TRIES = 5


@slotted
class _Tries:
    misses: int = 0


class RequireOutput(WrappedHooks):
    """Hooks around other hooks. The count restarts with each prompt."""

    def __init__(self, inner: Hooks, tool_name: str, tries: _Tries | None = None) -> None:
        super().__init__(inner)
        self._tool_name = tool_name
        self._tries = tries or _Tries()

    def around(self, inner: Hooks) -> Hooks:
        return RequireOutput(inner, self._tool_name, self._tries)

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
        return PostToolVerdict(f"Output did not match the schema in {MAX_TRIES} attempts.", verdict.context, "schema")

    async def before_prompt(self, text: str) -> PromptVerdict:
        self._tries.misses = 0
        return await self._inner.before_prompt(text)

    async def before_stop(self, state: LoopState) -> StopVerdict:
        verdict = await self._inner.before_stop(state)
        if verdict.errors or verdict.prevented is not None:
            return verdict
        self._tries.misses += 1
        if self._tries.misses >= MAX_TRIES:
            return StopVerdict(prevented=f"{self._tool_name} was not called in {MAX_TRIES} attempts.", by="schema")
        return StopVerdict(errors=(f"Give your answer by calling the tool {self._tool_name}.",), by="schema")
