"""Drives one engine: submits prompts, sends every event to the output, keeps the last result.

A prompt that arrives during a submission is queued into it; one that arrives in between starts the next submission. The
run is non-interactive, so every permission question is denied.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.core.aio import AbortReason, cancel_and_wait, start_task
from agentcli.core.events import Event, PermissionDenied, PermissionRequested, Result
from agentcli.core.messages import Json, TextBlock
from agentcli.core.permission import Answer
from agentcli.headless.input import BadLine, ControlLine, Prompt, UserLine, parse_line
from agentcli.headless.notices import denial_summary
from agentcli.headless.output import DebugLog, EventOutput, Notices, StreamJsonOutput

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.commands.line import CommandLine
    from agentcli.history.export.span_sender import SpanSender
    from agentcli.mcp.servers import McpServers

_QUIET_SECONDS = 2.0
"""Shorter waits are not reported."""
_GRACE_SECONDS = 5.0
"""Added to the wait, so that a server that exceeds its own time limit, which begins a little later, has failed by
then."""


async def wait_for_servers(servers: McpServers, stopped: asyncio.Event, notices: Notices) -> None:
    """Start all servers and wait until each is connected or has failed, at most for `first_prompt_seconds`.

    `stopped` ends the wait."""
    servers.start()
    limits = servers.limits
    longest = limits.first_prompt_seconds
    grace = _GRACE_SECONDS if longest >= limits.start_seconds else 0.0
    settled = start_task(servers.wait_for_start(longest + grace))
    stop = start_task(stopped.wait())
    try:
        await asyncio.wait({settled, stop}, timeout=_QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not settled.done() and not stop.done():
            names = ", ".join(server.name for server in servers if not server.start_ended)
            notices.say(f"Waiting up to {longest:g} s for MCP servers: {names}. Ctrl+C stops.")
        await asyncio.wait({settled, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait([settled, stop])
    if not stopped.is_set():
        for server in servers:
            if problem := _problem(server.state, server.error):
                notices.say(f"MCP server {server.name} {problem}")


def _problem(state: str, error: str) -> str:
    match state:
        case "failed":
            return f"failed: {error or 'no reason given'}"
        case "needs-auth":
            return f"needs you to sign in: {error}" if error else "needs you to sign in."
        case "connecting":
            return "is still connecting; continuing without it. MCP_TIMEOUT sets how long to wait."
        case _:
            return ""


_NOBODY_TO_ASK = (
    "This call needs approval, and a non-interactive run cannot ask. --allowedTools or --permission-mode can allow it."
)


class HeadlessSession:
    def __init__(
        self,
        engine: Engine,
        output: EventOutput,
        debug: DebugLog | None,
        wait_background: bool,
        notices: Notices,
    ) -> None:
        """`wait_background`: wait for background tasks at the end and let the model react to each, instead of stopping
        them. `notices`: for messages that no output format has: servers that do not connect, denied calls."""
        from agentcli.commands.registry import reserve_names

        self._engine = engine
        reserve_names(engine)
        self._output = output
        self._debug = debug
        self._wait_background = wait_background
        self._notices = notices
        self._denied: list[PermissionDenied] = []
        """Denied calls of the submission, listed after its result."""
        self._servers_awaited = False
        self._stop: AbortReason | None = None
        self._stopped = asyncio.Event()
        self._prompts: asyncio.Queue[UserLine | None] = asyncio.Queue()
        self._sender: SpanSender | None = None
        if engine.session.settings.tuning.otlp_endpoint:
            from agentcli.history.export.span_sender import open_sender

            self._sender = open_sender(engine, notices.say)
        self.submitting = False
        self.result: Result | None = None
        """Result of the last finished submission."""

    def stop(self, reason: AbortReason) -> None:
        """Stop the running submission, or the one that is about to start."""
        self._stop = reason
        self._stopped.set()
        self._engine.abort(reason)
        self._engine.cancel_hooks()

    async def aclose(self) -> None:
        """Wait a moment for the last trace."""
        if self._sender is not None:
            await self._sender.aclose()

    async def submit(
        self, prompt: Prompt, mentions: str | None = None, *, verbatim: bool = False, is_last: bool = False
    ) -> None:
        """Run one prompt. Raises `OutputLost`, which ends the submission too. `mentions` as for `Engine.submit`.
        `verbatim`: do not parse the prompt as a command. `is_last`: end background tasks before showing the result; no
        agent runs in the background then, unless they are waited for."""
        self.submitting, self.result = True, None
        self._engine.agents.can_outlive_prompt = not is_last or self._wait_background
        try:
            await self._connect_servers()
            command = None if verbatim else await self._command(prompt, mentions)
            named = "" if verbatim else mentions
            work = self._engine.submit(prompt, mentions=named) if command is None else command
            result = await self._run(work)
            if is_last and self._engine.background.tasks:
                result = await self._end_background_of(result)
            await self._show(result)
        finally:
            self.submitting = False

    async def _run(self, work: AsyncGenerator[Event, None]) -> Result:
        """Show the events of a submission; returns its result, which is not shown yet."""
        result: Result | None = None
        async with aclosing(work) as events:
            async for event in events:
                if isinstance(event, Result):
                    result = event
                else:
                    await self._show(event)
        assert result is not None
        return result

    async def _connect_servers(self) -> None:
        """Wait for the MCP servers before the first prompt, so that the model has their tools. A signal ends it."""
        servers = self._engine.session.mcp
        if servers is not None and not self._servers_awaited:
            self._servers_awaited = True
            await wait_for_servers(servers, self._stopped, self._notices)
            if self._engine.session.server_notices is not None:
                self._engine.session.server_notices.take()  # they were just reported

    async def _end_background_of(self, result: Result) -> Result:
        """Wait for background tasks if requested, end those that still run, and put the outcome into the result."""
        from agentcli.tools.shell.background import ENDED_WITH_SESSION

        async def add(more: Result) -> bool:
            nonlocal result
            result = _join(result, more)
            return not more.is_error

        await self._end_background(add, wakes=not result.is_error)
        ended = {task.id: task.report() for task in self._engine.background.tasks}
        tasks = [ended.get(task["task_id"], task) for task in result.background_tasks]
        # After a second signal they are stopped later, with the engine.
        closed = {"status": "stopped", "summary": ENDED_WITH_SESSION}
        return replace(result, background_tasks=[t | closed if t["status"] == "running" else t for t in tasks])

    async def _end_background(self, add: Callable[[Result], Awaitable[bool]], *, wakes: bool = True) -> None:
        """Wait for background tasks if requested, until a signal; then stop those that still run. Each end wakes the
        model; `add` takes the results and returns whether to go on with that."""
        if self._wait_background:
            stopped = start_task(self._stopped.wait())
            try:
                while self._stop is None:
                    if wakes and self._engine.wakes.due():
                        wakes = await add(await self._run(self._engine.wake()))
                    elif self._engine.background.any_runs:
                        await self._show_changes(stopped)
                    else:
                        break
            finally:
                await cancel_and_wait([stopped])
        if self._stop is not AbortReason.SHUTDOWN:
            for event in await self._engine.background.stop_all():
                await self._show(event)

    async def _show_changes(self, stopped: asyncio.Task[bool]) -> None:
        """Wait for the next change of a background command, or for a signal."""
        change = start_task(self._engine.background.wait_for_changes())
        try:
            await asyncio.wait({change, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait([change])
        if not change.cancelled():
            for event in change.result():
                await self._show(event)

    async def _command(self, prompt: Prompt, own: str | None) -> AsyncGenerator[Event, None] | None:
        """The events of a slash command; None if the prompt is not one. `own`: the prompt without piped input, which a
        command that sends a prompt appends instead of taking it as an argument."""
        if command_in(prompt, self._engine) is None:
            return None
        await self._engine.live_files.refresh()
        line = command_in(prompt, self._engine)
        if line is None:
            return None
        from agentcli.commands.line import run_command

        sends_prompt = line.command is not None and line.command.kind == "prompt"
        if sends_prompt and own and isinstance(prompt, str) and (typed := command_in(own, self._engine)) is not None:
            added = prompt.removeprefix(own).strip()
            return run_command(self._engine, typed.name, typed.arguments, added=added)
        return run_command(self._engine, line.name, line.arguments)

    async def _show(self, event: Event) -> None:
        if self._debug is not None:
            self._debug.show(event)
        if self._stop is not None:
            # A signal may come before the engine has anything to abort; the first reason is kept.
            self._engine.abort(self._stop)
        if isinstance(event, PermissionRequested):
            self._engine.answer(event.request_id, Answer("deny", message=_NOBODY_TO_ASK))
        if isinstance(event, Result):
            self.result = event
            if self._sender is not None:
                self._sender.take()
        if isinstance(event, PermissionDenied):
            self._denied.append(event)
        await self._output.show(event)
        if isinstance(event, Result) and self._denied:
            self._notices.say_verbatim(denial_summary(self._denied))
            self._denied.clear()

    async def _show_result(self, result: Result) -> bool:
        await self._show(result)
        return not result.is_error

    async def follow(self, source: AsyncIterator[bytes | None], output: StreamJsonOutput) -> None:
        """Process user lines until the source ends and all are answered. Raises `OutputLost`."""
        reader = start_task(self._read(source, output), name="stdin")
        try:
            while self._stop is None and (prompt := await self._prompts.get()) is not None:
                await self._submit_with_leftovers(prompt)
            self.submitting = True
            await self._end_background(self._show_result)
        finally:
            self.submitting = False
            await cancel_and_wait([reader])
        if not reader.cancelled():
            reader.result()

    async def _submit_with_leftovers(self, line: UserLine) -> None:
        """Submit one prompt, then those that arrived meanwhile and could not be added to a running turn."""
        waiting = deque([line])
        while waiting and self._stop is None:
            line = waiting.popleft()
            await self.submit(line.prompt, verbatim=line.verbatim)
            left = self._engine.queue.take()
            waiting.extend(UserLine(queued.content, queued.mentions == "") for queued in left)

    async def _read(self, source: AsyncIterator[bytes | None], output: StreamJsonOutput) -> None:
        try:
            async for raw in source:
                match parse_line(raw):
                    case UserLine() as line:
                        self._take(line)
                    case ControlLine() as request:
                        await output.send(self._control(request))
                    case BadLine(message=message):
                        self._notices.say(message)
                    case None:
                        pass
        finally:
            self._prompts.put_nowait(None)

    def _take(self, line: UserLine) -> None:
        # A command is not for the model: it waits for the end of the submission.
        for_model = line.verbatim or command_in(line.prompt, self._engine) is None
        if self.submitting and self._prompts.empty() and self._engine.running and for_model:
            self._engine.enqueue(line.prompt, mentions="" if line.verbatim else None)
        else:
            self._prompts.put_nowait(line)

    def _control(self, request: ControlLine) -> Json:
        response: Json = {"request_id": request.request_id}
        if request.subtype == "interrupt":
            self._engine.abort(AbortReason.USER_CANCEL)
            response |= {"subtype": "success", "response": {"still_queued": list(self._engine.queue.ids)}}
        else:
            text = f"agentcli does not know the control request {request.subtype!r}."
            response |= {"subtype": "error", "error": text}
        return {"type": "control_response", "response": response}


def _join(first: Result, more: Result) -> Result:
    """One result for a prompt and for what the model did when it was woken. Its costs are the session's already."""
    tasks = {task["task_id"]: task for task in (*first.background_tasks, *more.background_tasks)}
    return replace(
        more,
        text="\n\n".join(filter(None, (first.text, more.text))),
        turns=first.turns + more.turns,
        duration_ms=first.duration_ms + more.duration_ms,
        api_duration_ms=first.api_duration_ms + more.api_duration_ms,
        waited_ms=first.waited_ms + more.waited_ms,
        usage=first.usage + more.usage,
        permission_denials=[*first.permission_denials, *more.permission_denials],
        structured_output=first.structured_output if more.structured_output is None else more.structured_output,
        background_tasks=list(tasks.values()),
    )


def command_in(prompt: Prompt, engine: Engine | None = None) -> CommandLine | None:
    """Parse a prompt as a slash command; None if it is none. Commands from files need an engine."""
    if not isinstance(prompt, str):
        block = prompt[0] if len(prompt) == 1 else None
        prompt = block.text if isinstance(block, TextBlock) else ""
    if not prompt.lstrip().startswith("/"):
        return None
    from agentcli.commands.line import CommandLine, parse_line

    line = parse_line(prompt, engine)
    return line if isinstance(line, CommandLine) else None
