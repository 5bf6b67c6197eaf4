"""The outcome of one tool call, and its result for the log."""

from __future__ import annotations

from typing import Literal

from agentcli.agent.ports import StopSource
from agentcli.agent.toolcalls.refusals import UserWords
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import TextBlock, ToolResultBlock, ToolUseBlock, clean_text
from agentcli.core.tool_errors import Content, wrapped_content
from agentcli.tools.base import Output

Outcome = Literal["done", "denied", "interrupted", "failed"]
"""How a call ended."""


@frozen
class CallResult:
    call: ToolUseBlock
    block: ToolResultBlock
    output: Output
    hook_stop: str | None = None
    hook_context: tuple[str, ...] = ()
    stopped_by: StopSource = "hook"
    """Source of `hook_stop`."""
    outcome: Outcome = "done"
    denied_by: str = ""
    """Who denied the call, for the user; "" if it was not denied, or was refused because the session is
    non-interactive."""
    waited: float = 0.0
    """Seconds for which the call waited for answers after it had begun."""
    accepted_hunks: tuple[int, int] | None = None
    said: tuple[UserWords, ...] = ()
    """The user's messages about this call. They follow the results as user messages, not inside the result."""

    @property
    def denied(self) -> bool:
        """Whether the user, a rule or a hook refused the call."""
        return self.outcome == "denied"


def failed(call: ToolUseBlock, text: str, summary: str = "", outcome: Outcome = "failed") -> CallResult:
    """An error result for a call that did not run, or not to its end."""
    output = Output(text, is_error=True, summary=summary or text.partition("\n")[0][:200])
    return CallResult(call, result_block(call, output), output, outcome=outcome)


def result_block(call: ToolUseBlock, output: Output) -> ToolResultBlock:
    """The result for the log: without characters that cannot be sent, never empty, and marked if the call failed."""
    content: Content
    if isinstance(output.content, str):
        content = (TextBlock(clean_text(output.content)),) if output.content.strip() else ()
    else:
        content = tuple(
            replace(part, text=clean_text(part.text)) if isinstance(part, TextBlock) else part
            for part in output.content
        )
    if output.is_error and not output.is_exit_code:
        content = wrapped_content(content)
    return ToolResultBlock(call.id, content or (TextBlock("(no output)"),), output.is_error)
