"""KillShell: stop a background command and all its processes."""

from __future__ import annotations

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import BuiltinTool, failure, object_schema
from agentcli.tools.shell.bashoutput import shell_of, unknown


class KillShell(BuiltinTool):
    name = "KillShell"
    subject = "bash_id"
    keeps_state = True
    input_schema = object_schema(["bash_id"], {"bash_id": {"type": "string", "description": "As Bash gave it"}})

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None if _agent(input, context) or shell_of(input, context) else unknown(input, context.shells)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        if (agent := _agent(input, context)) and context.agents is not None:
            report = await context.agents.stop(agent)
            yield Output(report, summary=f"stopped {agent}", data={"ended": agent})
            return
        shell = shell_of(input, context)
        if shell is None or context.shells is None:
            yield failure(unknown(input, context.shells))
            return
        command = plain_line(shell.command.text)
        shell.is_reported = True
        if shell.status != "running":
            text = f"{shell.id} had ended already ({shell.ended}): {command}"
            summary = f"had ended already: {shell.ended}"
            yield Output(text, summary=summary, structured={"status": shell.status}, data={"ended": shell.id})
            return
        await context.shells.stop(shell)
        unread = shell.command.output.unread
        rest = f" It printed {counted(unread, 'character')} that you have not read." if unread else ""
        yield Output(
            f"{shell.id} was ended: {command}.{rest}",
            summary=f"ended {shell.id}",
            structured={"status": shell.status},
            data={"ended": shell.id},
        )


def _agent(input: Json, context: ToolContext) -> str:
    """The id, if it belongs to a background agent; otherwise empty."""
    agent_id = str(input.get("bash_id", ""))
    return agent_id if context.agents is not None and context.agents.has_background(agent_id) else ""
