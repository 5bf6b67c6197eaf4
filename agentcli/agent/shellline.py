"""A command that the person typed themselves (`!ls`): their own rights, their own environment, no question asked.

It runs as in their shell, outside the sandbox and with the variables that tools never see. The model is told what was
run and what came of it before the next prompt. Its events belong to the agent `person`: they are shown, and not kept as
the model's own calls.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace

from agentcli.core import events as ev
from agentcli.core.abort import AbortSignal
from agentcli.core.ids import Clock
from agentcli.core.launch import BareLauncher
from agentcli.core.messages import TextBlock, ToolResultBlock
from agentcli.core.plaintext import plain_line
from agentcli.core.plural import counted
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.environment import quiet_environment

_TOLD = 16_000
"""Characters of the output that the model is told; a person's command can print anything."""


async def run_shell_line(
    command: str,
    context: ToolContext,
    environ: Mapping[str, str],
    call_id: str,
    clock: Clock,
    signal: AbortSignal,
    note: Callable[[str], None],
) -> AsyncGenerator[ev.Event, None]:
    from agentcli.tools.bash import LONGEST_TIMEOUT_MS, Bash

    tool, began = Bash(), clock.monotonic()
    input = {"command": command, "timeout": LONGEST_TIMEOUT_MS}
    own = {"launcher": BareLauncher(), "environ": quiet_environment(environ), "by_person": True}
    context = replace(context, call_id=call_id, **own)  # type: ignore[arg-type]
    yield ev.ToolStarted(
        agent=ev.USER_AGENT, tool_use_id=call_id, name="!", input=input, title=f"! {plain_line(command, 500)}"
    )
    output = Output("The command is empty or contains control characters; it was not run.", is_error=True)
    if tool.check(input, context) is None:
        async with aclosing(tool.run(input, context, signal)) as items:
            async for item in items:
                if isinstance(item, Progress):
                    yield ev.ToolProgressed(agent=ev.USER_AGENT, tool_use_id=call_id, text=item.text, data=item.data)
                else:
                    output = item
    text = output.content if isinstance(output.content, str) else ""
    note(_told(command, text))
    if output.new_cwd is not None:
        yield ev.DirectoryChanged(cwd=str(output.new_cwd))
    yield ev.ToolFinished(
        agent=ev.USER_AGENT,
        tool_use_id=call_id,
        name="!",
        result=ToolResultBlock(call_id, (TextBlock(text),), output.is_error),
        summary=output.summary,
        display=output.display,
        duration_ms=int((clock.monotonic() - began) * 1000),
        outcome="done" if not output.is_error else "interrupted" if signal.aborted else "failed",
    )


def _told(command: str, text: str) -> str:
    if len(text) > _TOLD:
        text = f"{text[: _TOLD // 2]}\n[{counted(len(text) - _TOLD, 'character')} left out]\n{text[-_TOLD // 2 :]}"
    return f"[The user ran a command in their own shell: {command}\nIts output:\n{text}]"
