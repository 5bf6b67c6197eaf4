"""Run a command typed by the user (`!ls`) with their own rights and environment, without asking.

It runs as in their shell, outside the sandbox and with all environment variables. The model gets a note about the
command and its output before the next prompt. The user's shell and the Bash tool have separate working directories. Its
events belong to the agent `events.USER_AGENT`: they are shown, but not stored as calls of the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from pathlib import Path

from agentcli.agent.attachments.undo_notes import UserActionNote
from agentcli.agent.toolcalls.call_input import paths_of_command
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, Aborted, AbortReason, AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock
from agentcli.core.messages import Json, TextBlock, ToolResultBlock
from agentcli.core.processes.launch import Launcher
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import name_below
from agentcli.tools.shell.environment import quiet_environment
from agentcli.workspace.base import Workspace

_NOTE_LIMIT = 16_000
"""Maximum characters of output in the note for the model; a user's command can print anything."""


@frozen
class ShellInvocation:
    """One command and its environment."""

    command: str
    context: ToolContext
    environ: Mapping[str, str]
    call_id: str
    clock: Clock
    workspace: Workspace = field(default_factory=Workspace)


class UserShell:
    """The user's shell: its directory, and its commands one after the other, as each may depend on the previous one."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self._turn = asyncio.Lock()
        self._running: set[AbortController] = set()
        """Controllers of running and waiting commands."""

    def stop(self) -> bool:
        """Stop all commands; False if there are none."""
        running = list(self._running)
        for controller in running:
            controller.abort(AbortReason.USER_CANCEL)
        return bool(running)

    async def run(
        self, line: ShellInvocation, parent: AbortSignal | None, note: Callable[[UserActionNote], None]
    ) -> AsyncGenerator[ev.Event, None]:
        """`parent`: another signal that stops it. `note` receives the note for the model."""
        with AbortController(parent=parent) as controller:
            self._running.add(controller)
            try:
                try:
                    await controller.signal.run(self._turn.acquire())
                except Aborted:
                    return
                try:
                    placed = replace(line, context=replace(line.context, cwd=self.cwd))
                    work = _noted(placed, _run(placed, controller.signal, note, self._move))
                    async with aclosing(work) as events:
                        async for event in events:
                            yield event
                finally:
                    self._turn.release()
            finally:
                self._running.discard(controller)

    def _move(self, folder: Path) -> None:
        self.cwd = folder


async def _noted(line: ShellInvocation, work: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
    """Tell the workspace that the command runs: its changes are the user's, even during a tool call."""
    only = await in_thread(paths_of_command, line.command, line.context)
    is_read_only = only is not None and not only
    if not is_read_only:
        await line.workspace.before_user_command(line.command, only)
    try:
        async with aclosing(work) as events:
            async for event in events:
                yield event
    finally:
        if not is_read_only:
            await line.workspace.after_user_command()


async def _run(
    line: ShellInvocation, signal: AbortSignal, note: Callable[[UserActionNote], None], moved: Callable[[Path], None]
) -> AsyncGenerator[ev.Event, None]:
    from agentcli.tools.shell.bash import MAX_TIMEOUT_MS, Bash

    tool, began, command, call_id = Bash(), line.clock.monotonic(), line.command, line.call_id
    input: Json = {"command": command, "timeout": MAX_TIMEOUT_MS}
    context = line.context
    folder = "" if context.cwd == context.root else name_below(str(context.cwd), context)
    where = f" (in {plain_line(folder, 200)})" if folder else ""
    own = {"launcher": Launcher(), "environ": quiet_environment(line.environ), "by_user": True}
    context = replace(context, call_id=call_id, **own)  # type: ignore[arg-type]
    shown = {**input, "folder": folder} if folder else input
    yield ev.ToolStarted(
        agent=ev.USER_AGENT, tool_use_id=call_id, name="!", input=shown, title=f"! {plain_line(command, 500)}{where}"
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
    note(_note(command, where, text))
    if output.new_cwd is not None:
        moved(output.new_cwd)
    yield ev.ToolFinished(
        agent=ev.USER_AGENT,
        tool_use_id=call_id,
        name="!",
        result=ToolResultBlock(call_id, (TextBlock(text),), output.is_error),
        summary=output.summary,
        display=output.display,
        duration_ms=int((line.clock.monotonic() - began) * 1000),
        outcome="done" if not output.is_error else "interrupted" if signal.aborted else "failed",
    )


def _note(command: str, where: str, text: str) -> UserActionNote:
    if len(text) > _NOTE_LIMIT:
        half, left_out = _NOTE_LIMIT // 2, counted(len(text) - _NOTE_LIMIT, "character")
        text = f"{text[:half]}\n[{left_out} left out]\n{text[-half:]}"
    return UserActionNote(
        "shell", f"[The user ran a command in their own shell{where}: {command}\nIts output:\n{text}]"
    )
