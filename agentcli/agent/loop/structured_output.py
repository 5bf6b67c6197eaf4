"""Keep a submission going until it has a structured output, up to a limit (`--json-schema`).

Implemented as hooks after all others: ending without the output blocks the stop; too many tries end the submission. Its
verdicts are marked with `by="schema"`, so that neither the model nor the user reads about a hook.
"""

from __future__ import annotations

from agentcli.agent.loop_state import LoopState
from agentcli.agent.ports import Hooks, PostToolVerdict, PromptVerdict, StopVerdict
from agentcli.core.messages import Json, ToolResultBlock, ToolUseBlock

MAX_TRIES = 5


class RequireOutput(Hooks):
    """The count restarts with each prompt."""

    def __init__(self, tool_name: str) -> None:
        self._tool_name = tool_name
        self._misses = 0

    @property
    def checks_prompts(self) -> bool:
        return False

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        return self._count(call) if result.is_error else PostToolVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        return self._count(call)

    def _count(self, call: ToolUseBlock) -> PostToolVerdict:
        if call.name != self._tool_name:
            return PostToolVerdict()
        self._misses += 1
        if self._misses < MAX_TRIES:
            return PostToolVerdict()
        return PostToolVerdict(f"Output did not match the schema in {MAX_TRIES} attempts.", by="schema")

    async def before_prompt(self, text: str) -> PromptVerdict:
        self._misses = 0
        return PromptVerdict()

    async def before_stop(self, state: LoopState) -> StopVerdict:
        self._misses += 1
        if self._misses >= MAX_TRIES:
            return StopVerdict(prevented=f"{self._tool_name} was not called in {MAX_TRIES} attempts.", by="schema")
        return StopVerdict(errors=(f"Give your answer by calling the tool {self._tool_name}.",), by="schema")
