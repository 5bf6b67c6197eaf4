"""Run a command typed by the user (`!ls`) with their own rights and environment, without asking.

It runs as in their shell, outside the sandbox and with all environment variables. The model gets a note about the
command and its output before the next prompt. The user's shell and the Bash tool have separate working directories. Its
events belong to the agent `events.USER_AGENT`: they are shown, but not stored as calls of the model.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.attachments.undo_notes import UserActionNote
from agentcli.agent.ports import EmitEvent
from agentcli.agent.toolcalls.calls import paths_of_command
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, Aborted, AbortReason, AbortSignal, in_thread
from agentcli.core.messages import Json, TextBlock, ToolResultBlock
from agentcli.core.processes.launch import Launcher
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Progress, name_below
from agentcli.tools.shell.environment import quiet_environment

if TYPE_CHECKING:
    from agentcli.agent.session import Session

_NOTE_LIMIT = 16_000
"""Maximum characters of output in the note for the model; a user's command can print anything."""


class UserShell:
    """The user's shell: its directory, and its commands one after the other, as each may depend on the previous one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.cwd: Path = session.tool_context.root
        self._turn = asyncio.Lock()
        self._running: set[AbortController] = set()
        """Controllers of running and waiting commands."""

    def stop(self) -> bool:
        """Stop all commands; False if there are none."""
        running = list(self._running)
        for controller in running:
            controller.abort(AbortReason.USER_CANCEL)
        return bool(running)

    async def run(self, command: str, emit: EmitEvent) -> None:
        """Run a command when those before it have ended."""
        with AbortController(parent=self._session.command_signal) as controller:
            self._running.add(controller)
            try:
                await controller.signal.run(self._turn.acquire())
                try:
                    await self._run_next(command, controller.signal, emit)
                finally:
                    self._turn.release()
            except Aborted:
                return
            finally:
                self._running.discard(controller)

    async def _run_next(self, command: str, signal: AbortSignal, emit: EmitEvent) -> None:
        """Run it, and let the workspace know: its changes are the user's, even during a tool call."""
        workspace = self._session.workspace
        only = await in_thread(paths_of_command, command, replace(self._session.tool_context, cwd=self.cwd))
        if only is not None and not only:
            await self._execute(command, signal, emit)
            return
        workspace.before_user_command(command, only)
        try:
            await self._execute(command, signal, emit)
        finally:
            workspace.after_user_command()

    async def _execute(self, command: str, signal: AbortSignal, emit: EmitEvent) -> None:
        from agentcli.tools.shell.bash import MAX_TIMEOUT_MS, Bash

        session, tool, call_id = self._session, Bash(), self._session.ids.new()
        began = session.clock.monotonic()
        context = replace(
            session.tool_context,
            cwd=self.cwd,
            call_id=call_id,
            launcher=Launcher(),
            environ=quiet_environment(session.environ),
            by_user=True,
        )
        input: Json = {"command": command, "timeout": MAX_TIMEOUT_MS}
        folder = "" if context.cwd == context.root else name_below(str(context.cwd), context)
        where = f" (in {plain_line(folder, 200)})" if folder else ""
        shown = {**input, "folder": folder} if folder else input
        title = f"! {plain_line(command, 500)}{where}"
        await emit(ev.ToolStarted(agent=ev.USER_AGENT, tool_use_id=call_id, name="!", input=shown, title=title))
        output = Output("The command is empty or contains control characters; it was not run.", is_error=True)
        if tool.check(input, context) is None:
            async with aclosing(tool.run(input, context, signal)) as items:
                async for item in items:
                    if isinstance(item, Progress):
                        progress = ev.ToolProgressed(tool_use_id=call_id, text=item.text, data=item.data)
                        await emit(replace(progress, agent=ev.USER_AGENT))
                    else:
                        output = item
        text = output.content if isinstance(output.content, str) else ""
        session.user_notes.add(_note(command, where, text))
        self.cwd = output.new_cwd or self.cwd
        await emit(
            ev.ToolFinished(
                agent=ev.USER_AGENT,
                tool_use_id=call_id,
                name="!",
                result=ToolResultBlock(call_id, (TextBlock(text),), output.is_error),
                summary=output.summary,
                display=output.display,
                duration_ms=int((session.clock.monotonic() - began) * 1000),
                outcome="done" if not output.is_error else "interrupted" if signal.aborted else "failed",
            )
        )


def _note(command: str, where: str, text: str) -> UserActionNote:
    if len(text) > _NOTE_LIMIT:
        half, left_out = _NOTE_LIMIT // 2, counted(len(text) - _NOTE_LIMIT, "character")
        text = f"{text[:half]}\n[{left_out} left out]\n{text[-half:]}"
    return UserActionNote(
        "shell", f"[The user ran a command in their own shell{where}: {command}\nIts output:\n{text}]"
    )
