"""EnterPlanMode, with which the model asks to plan first, and ExitPlanMode, which presents the plan to the user.

Only the user's approval ends plan mode, and the user may edit the plan first. The policy defines what plan mode
forbids.
"""

from __future__ import annotations

from typing import ClassVar

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.plural import counted
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import QuestionTool, object_schema

_MAX_PLAN = 100_000


class EnterPlanMode(QuestionTool):
    name = "EnterPlanMode"
    input_schema = object_schema([], {})
    unanswered = "This session is non-interactive, so no plan can be approved: go on without plan mode, carefully."
    declined = "The user wants you to go on without plan mode."

    def title(self, input: Json) -> str:
        return "Plan before working"

    def check(self, input: Json, context: ToolContext) -> str | None:
        return "Plan mode is on already." if context.mode is PermissionMode.PLAN else None

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        text = "The agent wants to explore and write a plan first. It changes nothing until you approve the plan."
        return {"kind": "text", "question": "Plan first?", "text": text}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        yield Output(
            "Plan mode is on: read, search, run read-only commands and ask, then present the plan with ExitPlanMode.",
            summary="plan mode is on",
            display={"kind": "mode", "mode": PermissionMode.PLAN.value},
            structured={"mode": PermissionMode.PLAN.value},
            mode="plan",
        )


class ExitPlanMode(QuestionTool):
    name = "ExitPlanMode"
    keeps_state = True
    input_schema = object_schema(["plan"], {"plan": {"type": "string", "minLength": 1, "maxLength": _MAX_PLAN}})
    answer_schema: ClassVar[Json] = {**input_schema, "additionalProperties": True}
    """Front ends may send further fields with an approved plan; they are ignored."""
    unanswered = "This session is non-interactive, so plan mode stays on: give the plan as your answer."
    declined = "The user did not approve the plan; plan mode stays on."

    def title(self, input: Json) -> str:
        return "Plan for approval"

    def check(self, input: Json, context: ToolContext) -> str | None:
        if context.mode is not PermissionMode.PLAN:
            return "Plan mode is not on, so there is nothing to leave. Go on with the work."
        return None if input["plan"].strip() else "The plan is empty."

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        return {"kind": "plan", "plan": plain_text(input["plan"]), "returns_to": context.before_plan.value}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        plan = input["plan"].strip()
        lines = plan.count("\n") + 1
        yield Output(
            f"The user has approved this plan. Plan mode is off: begin the work.\n\n{plan}",
            summary=f"approved, {counted(lines, 'line')}",
            display={"kind": "plan", "plan": plain_text(plan)},
            structured={"plan": plan},
            data={"plan": plan},
            mode="previous",
        )
