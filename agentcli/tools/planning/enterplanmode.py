"""EnterPlanMode: the model asks to plan first. The policy defines what plan mode forbids."""

from __future__ import annotations

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import QuestionTool, object_schema


class EnterPlanMode(QuestionTool):
    name = "EnterPlanMode"
    input_schema = object_schema([], {})
    unanswered = "Nobody is there who could approve a plan. Go on without plan mode, carefully."
    declined = "The user wants you to go on without plan mode."

    def title(self, input: Json) -> str:
        return "Plan before working"

    def check(self, input: Json, context: ToolContext) -> str | None:
        return "Plan mode is on already." if context.mode is PermissionMode.PLAN else None

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        text = "The agent wants to explore and write a plan first. It changes nothing until you approve the plan."
        return {"kind": "text", "text": text}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        yield Output(
            "Plan mode is on: read, search, run read-only commands and ask, then present the plan with ExitPlanMode.",
            summary="plan mode is on",
            display={"kind": "mode", "mode": PermissionMode.PLAN.value},
            structured={"mode": PermissionMode.PLAN.value},
            mode="plan",
        )
