"""Drives the engine for a front end: prompts, the queue, questions, interruption, background changes.

One submission runs at a time, in one task. Prompts sent meanwhile wait in `WaitingPrompts`; shell lines and commands
that allow it run beside the submission. An interruption is shown at once and the next prompt is accepted at once. That
prompt starts when the old submission has ended, and a submission that ignores the abort is cancelled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentcli.core import events as ev
from agentcli.core.aio import CLEANUP_SECONDS, AbortReason, in_thread, start_task
from agentcli.core.errors import AgentError
from agentcli.core.permission import Answer, PermissionMode
from agentcli.interactive.housekeeping import Housekeeping
from agentcli.interactive.submission import (
    PendingQuestions,
    WaitingPrompts,
    is_of_server,
    is_prompt,
    needs_model,
    submit,
)
from agentcli.interactive.view import Sent, View

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.agent.mcp.requests import ServerQuestions
    from agentcli.agent.mcp.updates import ServerNotices
    from agentcli.agent.plugins import SessionPlugins
    from agentcli.assemble import Options
    from agentcli.commands.line import CommandLine
    from agentcli.interactive.drafts import Draft
    from agentcli.mcp.servers import McpServers

ABORT_GRACE_SECONDS = 3.0
"""Seconds for an aborted submission to end. A command that ignores SIGTERM takes a little over two."""
CANCEL_GRACE_SECONDS = 0.5
"""Seconds for a cancelled submission to end before it is cancelled again."""
CANCEL_ATTEMPTS = 5
SERVER_END_SECONDS = 0.5
"""Seconds for MCP servers to end before another session is opened beside them."""
IDLE_SECONDS = 60.0
"""Seconds from the end of a submission to the Notification hooks for an idle session."""
EVENT_SLICE_SECONDS = 0.008
"""Seconds of events without a pause after which keys and frames get a turn."""
BACKGROUND_PAUSE_SECONDS = 0.03
"""Seconds between batches of events of background agents. Waking up for each delta would cost more."""
_MODES = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO, PermissionMode.PLAN)
"""The permission modes that Shift+Tab cycles through."""


class SessionDriver:
    def __init__(self, view: View, *, wakes: bool = False) -> None:
        """`wakes`: whether the front end can show a submission that the user did not start."""
        self._view = view
        self._wakes = wakes
        self._is_interrupted = False
        """Whether the user stopped the last submission, after which only a prompt continues."""
        self._engine: Engine | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """Everything that `close` ends: the submission, its guard, the background watch, work beside it."""
        self._ending: set[asyncio.Task[None]] = set()
        """MCP servers of earlier sessions that are being ended."""
        self._earlier_servers: McpServers | None = None
        """MCP servers of the last session, while some of earlier sessions have not ended; the next engine's servers
        wait for them."""
        self._running: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._concurrent: set[asyncio.Task[None]] = set()
        self._calls: dict[str, str] = {}
        """Agents of the running tool calls, by call id, in the order of their start."""
        self._background_agents: set[str] = set()
        """Background agents and their descendants: their questions outlive a submission."""
        self._waiting = WaitingPrompts(view.show_queued)
        self._due: list[Sent] = []
        """Drafts to start, in order, as soon as nothing runs and there is an engine."""
        self._questions = PendingQuestions(view)
        self._abort_reason: AbortReason | None = None
        """Passed to the engine again with each event: at the first call the submission may not have started."""
        self._followed: McpServers | None = None
        """The MCP servers that are watched."""
        self._holding = False
        """Whether another conversation is about to be opened, so that new drafts wait for that one."""
        self._housekeeping = Housekeeping()
        self.stuck = False
        """Whether a task ignored its cancellation and still ran when the driver was closed."""

    @property
    def engine(self) -> Engine | None:
        return self._engine

    @property
    def busy(self) -> bool:
        return self._running is not None

    @property
    def submission(self) -> asyncio.Task[None] | None:
        return self._running

    @property
    def stopping(self) -> bool:
        """Whether the running submission was asked to stop."""
        return self._abort_reason is not None

    # ------------------------------------------------------------------------------------------------ the engine

    def open(self, engine: Engine) -> None:
        """Show the engine's conversation and start the drafts sent before there was an engine."""
        from agentcli.commands.registry import reserve_names

        self._engine = engine
        if engine.session.mcp is not None and self._earlier_servers is not None:
            engine.session.mcp.follow(self._earlier_servers)
            self._earlier_servers = None
        reserve_names(engine)
        self._view.show_opened(engine)
        for notice in engine.take_notices():
            self._view.show(notice)
        self._watch_background()
        self._housekeeping.open(engine, self._view.note)
        if engine.session.plugins is not None:
            self._create_task(self._note_plugins(engine.session.plugins))
        self._followed = None
        self._follow_servers(engine)
        self._create_task(self._watch_files(engine))
        self._start_next()

    def hold(self, holding: bool) -> None:
        """Keep drafts sent from now on for another conversation, or stop doing so."""
        self._holding = holding
        if not holding:
            self._start_next()

    async def replace(self, engine: Engine) -> None:
        """Close this conversation and open another one. Queued prompts go back into the prompt; drafts sent since
        `hold` go to the new conversation."""
        self._holding = True
        if queued := self.withdraw_queued():
            self._view.give_back(queued)
        await self.close("resume" if engine.message_count else "clear")
        self._questions.clear()
        self._background_agents.clear()
        self._view.clear()
        self._due = [Sent(sent.draft, self._view.show_sent(sent.draft)) for sent in self._due]
        self._holding = False
        self.open(engine)

    async def close(self, reason: str = "exit") -> None:
        """End all work and close the engine. `reason` as for `Engine.aclose`."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.abort(AbortReason.SHUTDOWN)
        if self._running is not None:
            await asyncio.wait([self._running], timeout=ABORT_GRACE_SECONDS)
        if tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            # Tools that clean up write their results to the session file, which is closed after that.
            is_working = self._running is not None and not self._running.done()
            seconds = CLEANUP_SECONDS + CANCEL_GRACE_SECONDS if is_working else 1.0
            _done, pending = await asyncio.wait(tasks, timeout=seconds)
            self.stuck = bool(pending)
        self._running = self._guard = self._watching = self._abort_reason = None
        is_exit = reason not in ("clear", "resume")
        await self._housekeeping.aclose()
        try:
            if engine is not None:
                await engine.aclose(reason, ends_servers=is_exit)
        finally:
            if engine is not None and engine.session.mcp is not None and not is_exit:
                await self._end_servers(engine.session.mcp)
            if is_exit and self._ending:
                await asyncio.wait(self._ending)

    async def _end_servers(self, servers: McpServers) -> None:
        """End the MCP servers of a session that another one replaces. Slow ones are ended in the background."""
        task = start_task(servers.aclose(), name="end MCP servers")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        await asyncio.wait([task], timeout=SERVER_END_SECONDS)
        self._earlier_servers = servers if self._ending else None

    def note(self, text: str, level: str = "info") -> None:
        """Show a line of the front end itself and record it, so that a resumed session shows it again."""
        if self._engine is not None:
            self._engine.record_shown(ev.NoticeRaised(text=text, level=level))
        self._view.note(text, level)

    def cycle_mode(self) -> None:
        """Switch to the next permission mode."""
        if self._engine is not None:
            self._engine.permissions.set_mode(next_mode(self._engine))
            self._view.refresh_status()

    # --------------------------------------------------------------------------------------------------- sending

    def send(self, draft: Draft, at_once: bool = False) -> None:
        """Send a prompt, a command or a shell line. While a submission runs it waits, or replaces it (`at_once`)."""
        if self._engine is None or self._holding or self.stopping:
            self._due.append(Sent(draft, self._view.show_sent(draft)))
        elif not self.busy:
            self._view.show_sent(draft)
            self._start(self._engine, draft)
        elif (work := self._concurrent_work(self._engine, draft)) is not None:
            self._start_concurrent(self._engine, draft, work)
        elif at_once:
            self.steer(draft)
        else:
            self.enqueue(draft)

    def perform(self, work: AsyncGenerator[ev.Event, None]) -> asyncio.Task[None] | None:
        """Run a command's own work as a submission; None if one runs already."""
        if self._engine is None or self.busy or self._holding:
            return None
        self._start(self._engine, work)
        return self._running

    def enqueue(self, draft: Draft) -> None:
        """Let a draft wait for the running submission."""
        assert self._engine is not None
        self._waiting.add(self._engine, draft, for_model=is_prompt(draft, self._engine))

    def steer(self, draft: Draft | None = None) -> None:
        """Stop the submission and continue with the queued prompts, and with this one (abort reason `interrupt`)."""
        drafts = self.withdraw_queued()
        if draft is not None:
            drafts.append(draft)
        if not drafts or self._engine is None:
            return
        if self.busy:
            self._abort(self._engine, AbortReason.INTERRUPT)
            self._view.show_interrupted(steering=True)
        for each in drafts:
            if not self._view.take_due(each):
                self._due.append(Sent(each, self._view.show_sent(each)))
        self._start_next()

    def take_back(self) -> Draft | None:
        """Remove the last prompt from the queue and return it; None if the loop has already taken it."""
        return None if self._engine is None else self._waiting.take_last(self._engine)

    def withdraw_queued(self) -> list[Draft]:
        """Remove all prompts from the queue."""
        return self._waiting.take_all(self._engine)

    def withdraw_due(self) -> list[Draft]:
        """Remove prompts that were sent before there was an engine. Commands stay due."""
        prompts = [sent for sent in self._due if needs_model(sent.draft, self._engine)]
        self._due = [sent for sent in self._due if sent not in prompts]
        self._view.remove_sent(prompts)
        if prompts and not self._due:
            self._view.show_settled()
        return [sent.draft for sent in prompts]

    def interrupt(self) -> bool:
        """Stop the submission; False if nothing runs. Queued prompts go back into the prompt. Shell lines beside the
        submission continue until the next interruption."""
        if not self._due and (not self.busy or self.stopping):
            if self._engine is not None and self._abort_reason is not None:
                self._abort(self._engine, self._abort_reason)
            stopped = self._engine is not None and self._engine.user_shell.stop()
            return self.busy or stopped
        drafts: list[Draft] = []
        if self._engine is not None and self.busy and not self.stopping:
            self._is_interrupted = True
            self._abort(self._engine, AbortReason.USER_CANCEL)
            self._view.show_interrupted(steering=False)
            drafts = self.withdraw_queued()
        due, self._due = self._due, []
        if due and not self.busy:
            self._view.show_interrupted(steering=False)
            self._view.show_settled()
        self._view.remove_sent(due)
        if drafts := [*drafts, *(sent.draft for sent in due)]:
            self._view.give_back(drafts)
        return True

    def send_to_background(self) -> bool:
        """Move the running command or agent to the background, the last one first; False if none runs. An agent is
        moved as a whole, not the command that it runs."""
        engine = self._engine
        of_agents = {call for call, agent in self._calls.items() if agent not in ("", ev.USER_AGENT)}
        calls = [*(call for call in reversed(self._calls) if call not in of_agents), *of_agents]
        return engine is not None and any(engine.background.detach(call) for call in calls)

    def answer(self, request_id: str, answer: Answer | None) -> None:
        """Answer a question; None: the user closed it, which interrupts the submission, or stops the background agent
        that asks."""
        of_background = self._questions.agent_of(request_id) in self._background_agents
        self._questions.remove(request_id)
        if answer is None and of_background and self._engine is not None:
            self._engine.answer(request_id, Answer("deny", interrupt=True))
        elif answer is None:
            self.interrupt()
        elif self._engine is not None:
            self._engine.answer(request_id, answer)
        self._questions.ask_next()

    # --------------------------------------------------------------------------------------------- the submission

    def _create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = start_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start(self, engine: Engine, draft: Draft | AsyncGenerator[ev.Event, None] | None) -> None:
        """`draft`: as for `submit`, or a command's own work."""
        self._is_interrupted = False
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self._view.show_started()
        self._running = self._create_task(self._run(engine, draft))

    def _wake(self) -> None:
        """Let the model continue if a background task has ended and nothing else runs or waits to run."""
        engine = self._engine
        if engine is None or not self._wakes or self._is_interrupted:
            return
        if not engine.session.settings.tuning.wake_on_background:
            return
        if not self.busy and not self._holding and not self._due and engine.wakes.due():
            self._start(engine, None)

    async def _run(self, engine: Engine, draft: Draft | AsyncGenerator[ev.Event, None] | None) -> None:
        try:
            work = engine.perform(draft) if isinstance(draft, AsyncGenerator) else await submit(engine, draft)
            async with aclosing(work) as events:
                slice_began = time.monotonic()
                async for event in events:
                    if self._abort_reason is not None and self._engine is not None:
                        self._engine.abort(self._abort_reason)
                    self._show(event)
                    if time.monotonic() - slice_began > EVENT_SLICE_SECONDS:
                        # If a reply arrives faster than it is shown, no await above ever yields to the event loop.
                        await asyncio.sleep(0)
                        slice_began = time.monotonic()
        except asyncio.CancelledError:
            self.note("The task did not stop in time and was cancelled.", "warning")
        except Exception as error:  # a bug of ours ends this submission, not the session
            import logging

            logging.getLogger("agentcli").exception("the submission failed")
            text = f"agentcli itself failed: {type(error).__name__}: {error}. You can continue the conversation."
            self.note(text, "error")
        finally:
            if asyncio.current_task() is self._running:
                self._settle()

    def _show(self, event: ev.Event, *, concurrent: bool = False) -> None:
        self._track(event)
        concurrent = concurrent or event.agent in self._background_agents or is_of_server(event)
        self._view.show(event)
        match event:
            case ev.SessionStarted() if self._engine is not None and not event.agent:
                self._follow_servers(self._engine)
            case ev.PermissionRequested() | ev.CompactionProposed():
                if concurrent or not self.stopping:
                    self._questions.add(event, concurrent=concurrent)
            case ev.PermissionResolved():
                self._questions.withdraw(event.request_id)
            case ev.ContextCompacted() | ev.CompactionFailed() if not event.agent:
                self._questions.withdraw_compactions()
            case ev.MessageAppended() if self._engine is not None and not event.agent:
                self._waiting.drop_taken(self._engine)

    def _track(self, event: ev.Event) -> None:
        match event:
            case ev.ToolStarted():
                self._calls[event.tool_use_id] = event.agent
            case ev.ToolFinished():
                self._calls.pop(event.tool_use_id, None)
            case ev.AgentStarted() if event.background or event.parent in self._background_agents:
                self._background_agents.add(event.agent)
            case ev.AgentMoved():
                self._background_agents.update(event.agents)
            case ev.AgentFinished():
                self._background_agents.discard(event.agent)

    def _settle(self) -> None:
        """Reset after a submission and start the next draft."""
        self._running = self._abort_reason = None
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        self._calls = {call: agent for call, agent in self._calls.items() if agent == ev.USER_AGENT}
        self._questions.end_submission()
        self._view.show_settled()
        self._housekeeping.end_submission()
        self._start_next()
        self._wake()
        if self._engine is not None and not self._holding:
            self._create_task(self._keep_house(self._engine))
        if not self.busy:
            self._watch_background()

    async def _keep_house(self, engine: Engine) -> None:
        def show(event: ev.Event) -> None:
            self._view.show(event)
            self._view.refresh_status()

        await self._housekeeping.run(engine, show)

    def _start_next(self) -> None:
        """If nothing runs, start the next draft: first those shown as sent, then the queued ones."""
        engine = self._engine
        if self.busy or engine is None or self._holding:
            return
        if self._due:
            self._start(engine, self._due.pop(0).draft)
            return
        while (draft := self._waiting.take_first(engine)) is not None:
            if not self._view.take_due(draft):
                self._view.show_sent(draft)
                self._start(engine, draft)
                return

    def _abort(self, engine: Engine, reason: AbortReason) -> None:
        """Stop the submission. An abort that is not obeyed in time becomes a cancellation."""

        async def guard(task: asyncio.Task[None]) -> None:
            done, _pending = await asyncio.wait([task], timeout=ABORT_GRACE_SECONDS)
            for _attempt in range(CANCEL_ATTEMPTS):
                # A tool may swallow one cancellation.
                if done:
                    return
                task.cancel()
                done, _pending = await asyncio.wait([task], timeout=CANCEL_GRACE_SECONDS)
            if not done:
                # A tool may still be cleaning up; its time for that began with the first attempt.
                left = CLEANUP_SECONDS - (CANCEL_ATTEMPTS - 1) * CANCEL_GRACE_SECONDS
                done, _pending = await asyncio.wait([task], timeout=left)
            if not done:
                text = "The running task did not stop. Quit with Ctrl+C twice, then continue with agentcli -c."
                self.note(text, "error")

        self._abort_reason = reason
        engine.abort(reason)
        self._questions.end_submission()
        if self._running is not None and (self._guard is None or self._guard.done()):
            self._guard = self._create_task(guard(self._running))

    # ---------------------------------------------------------------------------------------- beside a submission

    def _concurrent_work(self, engine: Engine, draft: Draft) -> Coroutine[Any, Any, None] | None:
        """The coroutine of a draft that can run beside the submission; None if it has to wait."""
        if is_prompt(draft, engine):
            return None
        from agentcli.commands.line import CommandLine, ShellLine, parse_line

        match parse_line(draft.expanded(), engine):
            case ShellLine() as line if engine.session.is_model_working:
                # The user's shell lines wait for one another, not for the model.
                return self._run_shell_line(engine, line.command)
            case CommandLine() as line if line.command is not None and line.command.concurrent:
                return self._run_command(engine, line)
        return None

    def _start_concurrent(self, engine: Engine, draft: Draft, work: Coroutine[Any, Any, None]) -> None:
        entered = ev.CommandEntered(text=draft.text)
        engine.record_shown(entered)
        self._view.show_concurrent(entered)
        task = self._create_task(work)
        self._concurrent.add(task)
        task.add_done_callback(self._concurrent.discard)

    async def wait_for_concurrent(self) -> None:
        """Wait until all work beside the submission has ended."""
        if self._concurrent:
            await asyncio.wait(self._concurrent)

    async def _run_shell_line(self, engine: Engine, command: str) -> None:
        async with aclosing(engine.shell(command)) as events:
            async for event in events:
                self._track(event)
                self._view.show_concurrent(event)

    async def _run_command(self, engine: Engine, line: CommandLine) -> None:
        assert line.command is not None
        async with aclosing(line.command.load()(engine, line.arguments)) as events:
            async for event in events:
                engine.record_shown(event)
                self._show(event, concurrent=True)
        self._view.refresh_status()

    async def _watch_files(self, engine: Engine) -> None:
        """Take in changed files at once: commands and skills also beside a submission, because menus show them."""
        while True:
            news = await engine.live_files.wait_for_changes()
            for notice in news.notices:
                self.note(notice.text, notice.level)
            if news.changed:
                self._view.apply_settings()
            self._follow_servers(engine)
            self._view.refresh_commands()
            self._view.refresh_status()

    def _watch_background(self) -> None:
        """Between submissions, show changes of background commands, agents and files."""

        async def watch(engine: Engine) -> None:
            await asyncio.gather(self._show_background(engine), self._note_files(engine), _notify_idle(engine))

        if self._engine is not None and self._watching is None:
            self._watching = self._create_task(watch(self._engine))

    async def _show_background(self, engine: Engine) -> None:
        while True:
            for event in await engine.background.wait_for_changes():
                self._show(event)
            self._view.refresh_status()
            self._wake()
            # Not within the batch: a cancellation here would lose the events not yet shown.
            await asyncio.sleep(BACKGROUND_PAUSE_SECONDS)

    async def _note_files(self, engine: Engine) -> None:
        # Once: the notice holds until the next prompt, which reports the changes to the model.
        self.note(await engine.files.wait_for_notice())

    async def _note_plugins(self, plugins: SessionPlugins) -> None:
        """Show notices about plugins, also during a submission: a plugin file is reloaded when it is saved."""
        while True:
            for notice in await plugins.wait_for_notices():
                self.note(notice.text, notice.level)

    def _follow_servers(self, engine: Engine) -> None:
        """Watch the MCP servers, also those that the session got later."""
        session = engine.session
        if session.mcp is self._followed:
            return
        self._followed = session.mcp
        if session.mcp is not None and session.server_notices is not None:
            self._create_task(self._note_servers(session.mcp, session.server_notices))
        if session.server_questions is not None:
            self._create_task(self._show_server_questions(engine, session.server_questions))

    async def _note_servers(self, servers: McpServers, notices: ServerNotices) -> None:
        """Show notices about MCP servers and refresh menus and status, also during a submission."""
        while True:
            version = servers.version
            for notice in notices.take():
                self.note(notice.text, notice.level)
            self._view.refresh_commands()
            self._view.refresh_status()
            await servers.wait_for_change(version)

    async def _show_server_questions(self, engine: Engine, questions: ServerQuestions) -> None:
        """Show questions of MCP servers at any time: also between submissions, and while a command waits for one."""
        while True:
            for event in await questions.wait_for_events():
                engine.record_shown(event)
                self._show(event, concurrent=True)
            self._view.refresh_status()


async def replace_engine(
    open_engine: Engine | None, options: Options, make: Callable[[Options], Awaitable[Engine]]
) -> Engine:
    """Make the engine that follows another one, which stays usable if that fails. Raises `AgentError`.

    Only one engine can have a session file open, so one that goes back in its own session lets go of it first."""
    if options.rewind is None or open_engine is None or options.resume != open_engine.session_id:
        return await make(options)
    await in_thread(open_engine.session.store.close)
    try:
        return await make(options)
    except AgentError:
        await in_thread(open_engine.session.store.reopen)
        raise


async def _notify_idle(engine: Engine) -> None:
    await asyncio.sleep(IDLE_SECONDS)
    if engine.message_count:
        engine.session.hooks.attention_needed("idle_prompt", "agentcli is waiting for your input.")


def next_mode(engine: Engine) -> PermissionMode:
    """The mode after the current one; auto mode only if it is available."""
    modes = [mode for mode in _MODES if mode is not PermissionMode.AUTO or not engine.auto_mode_problem]
    present = engine.permissions.mode
    place = modes.index(present) if present in modes else -1
    return modes[(place + 1) % len(modes)]
