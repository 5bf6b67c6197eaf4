"""Task: delegate work to a sub-agent with its own context."""

from __future__ import annotations

from agentcli.core.aio import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need, PermissionMode
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import AgentTask, BuiltinTool, ToolContext, ToolRun, failure, object_schema

DEFAULT_AGENT = "general"
_UNAVAILABLE = "Agents are not available here. Do the work yourself."


class Task(BuiltinTool):
    name = "Task"
    subject = "subagent_type"
    needs_conversation = True
    input_schema = object_schema(
        ["description", "prompt"],
        {
            "description": {"type": "string", "description": "The task in three to five words"},
            "prompt": {"type": "string", "description": "Everything the agent has to know"},
            "subagent_type": {"type": "string", "description": f"The agent's name; default {DEFAULT_AGENT}"},
            "model": {"type": "string", "description": "Another model for this task; default: the agent's own"},
            "run_in_background": {"type": "boolean", "description": "Continue without waiting for the report"},
            "isolation": {"enum": ["worktree"], "description": "Work in a git worktree of its own"},
        },
    )

    def title(self, input: Json) -> str:
        return plain_line(f"{_agent(input)}: {input.get('description', '')}")

    def is_safe(self, input: Json) -> bool:
        # A sub-agent costs money and may change files, so the call must not be discarded and repeated.
        return False

    def runs_beside(self, input: Json) -> bool:
        return True

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("agent", _agent(input)),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if not str(input.get("prompt", "")).strip():
            return "The prompt is empty. Write what the agent has to do."
        return _UNAVAILABLE if context.agents is None else context.agents.problem(_task(input, context))

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        if context.agents is None:
            yield failure(_UNAVAILABLE)
        else:
            yield await context.agents.start(_task(input, context), signal)


def _agent(input: Json) -> str:
    return str(input.get("subagent_type") or DEFAULT_AGENT).strip().lower()


def _task(input: Json, context: ToolContext) -> AgentTask:
    return AgentTask(
        call_id=context.call_id,
        agent=_agent(input),
        description=plain_line(str(input.get("description", "")), 200),
        prompt=str(input.get("prompt", "")),
        model=plain_line(str(input.get("model") or ""), 200),
        background=bool(input.get("run_in_background")),
        worktree=input.get("isolation") == "worktree",
        is_planned=context.mode is PermissionMode.PLAN,
    )
