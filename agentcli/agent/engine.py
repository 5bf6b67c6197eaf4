"""The conversation: one `Engine` owns the log, its persistence, totals, denials and budgets (SPEC 1, L1).

`submit` drives the loop for one prompt (`agent/submission.py`). Answers, aborts and changes come in as method calls at
any time. Each separate subject has an object of its own: `engine.context`, `engine.costs`, `engine.files`,
`engine.background`, `engine.permissions`, `engine.queue`, `engine.user_shell`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentcli.agent.context.compaction import CompactArguments
from agentcli.agent.costs.cache_watch import Front
from agentcli.agent.ports import Priority, Prompt, QueuedPrompt, prompt_blocks
from agentcli.agent.profile import Profile
from agentcli.agent.prompt_expansion import DefinedPrompt, RequestedPrompt
from agentcli.agent.session import Session
from agentcli.agent.submission import Submission, SubmissionWork
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason, Outlet, in_thread
from agentcli.core.messages import TYPED, Json, Message, Origin
from agentcli.core.permission import Answer, Decision, Need
from agentcli.core.processes.launch import Launcher
from agentcli.memory.instructions import InstructionFile
from agentcli.providers.base import Effort, Thinking
from agentcli.providers.catalog import no_fast_mode
from agentcli.tools.base import title_of

if TYPE_CHECKING:
    from agentcli.agent.mcp.updates import ServerCost
    from agentcli.agent.tool_host import SessionToolHost
    from agentcli.session.recent_messages import EarlierPart


class Engine:
    def __init__(self, session: Session) -> None:
        self.session = session
        self._store = session.store
        self._open: AsyncGenerator[ev.Event, None] | None = None
        """The running submission, for `aclose`."""
        self.context = session.context
        """Inspect the context; pin, drop and restore items."""
        self.costs = session.costs
        """Totals, their breakdown, and the budget."""
        self.files = session.files
        """File changes: diff, undo, redo."""
        self.background = session.background
        """Background commands and agents."""
        self.wakes = session.wakes
        """Whether the model should continue because a background task has ended; `wake` does it."""
        self.agents = session.agents
        """Sub-agents: which there are, and which run."""
        self.permissions = session.permissions
        """Permission mode and rules."""
        self.queue = session.queue
        """Prompts that no submission has picked up yet; `enqueue` adds one."""
        self.user_shell = session.user_shell
        """The shell for commands that the user types after a `!`; `shell` runs one."""
        self.question = session.question
        self.take_notices = session.take_notices
        self.cancel_hooks = session.cancel_hooks
        self.live_files = session.live_files
        """Settings, definitions and plugins as their files are now."""

    # -------------------------------------------------------------------------------------------------------- state

    @property
    def session_id(self) -> str:
        return self._store.session_id

    @property
    def running(self) -> bool:
        return self.session.controller is not None

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages. The first call in a long resumed session may read its earlier part, which blocks for seconds;
        `all_messages`, `message_count` and `recent_messages` never block."""
        return tuple(self.session.log.read_whole())

    @property
    def message_count(self) -> int:
        return self.session.log.count

    async def all_messages(self) -> Sequence[Message]:
        """Like `messages`, without blocking: the earlier part is read in a thread."""
        return await self.session.log.whole(self.session.log.messages)

    async def messages_with(self, message_id: str) -> Sequence[Message]:
        """The message with this id, if there is one, and everything after it; earlier ones may be included."""
        return await self.session.log.holding([message_id])

    @property
    def recent_messages(self) -> Sequence[Message]:
        """Messages since the last compaction, and some before it."""
        return self.session.log.messages

    @property
    def profile(self) -> Profile:
        return self.session.settings.profile

    @property
    def model(self) -> str:
        return self.profile.model

    @property
    def effort(self) -> Effort | None:
        """The effort level that the model gets; None: its own default."""
        return self.session.settings.effort

    @property
    def is_fast(self) -> bool:
        """Whether requests use fast mode."""
        return self.session.settings.is_fast

    @property
    def fast_mode_problem(self) -> str:
        """Why fast mode is not available for the model; "" if it is."""
        info = self.session.catalog.get(self.model)
        if info.fast_price is None:
            return no_fast_mode(self.session.catalog, info)
        if info.id in self.session.settings.without_fast_mode:
            return f"The server refused fast mode for {info.id}."
        return ""

    def instruction_files(self) -> tuple[InstructionFile, ...]:
        """The instruction files that apply everywhere in the project, as they are now. Blocking."""
        files = self.session.instruction_files
        found = files.always().files if files is not None else ()
        return tuple(file for file in found if file.kind == "instructions")

    def instruction_files_to_add_to(self) -> tuple[tuple[Path, str], ...]:
        """The instruction files to which a user may add a line, and whose each is. Blocking."""
        files = self.session.instruction_files
        return files.to_add_to() if files is not None else ()

    @property
    def cwd(self) -> Path:
        """Working directory of the next Bash command."""
        return self.session.tool_context.cwd

    @property
    def root(self) -> Path:
        """The project's root: relative paths of file tools and `@` mentions start here."""
        return self.session.tool_context.root

    @property
    def working_dirs(self) -> tuple[Path, ...]:
        return self.session.tool_context.working_dirs

    @property
    def previews_compaction(self) -> bool:
        """Whether `/compact` waits for the user's approval of the summary."""
        return self.session.interactive and self.session.settings.tuning.compact_preview

    @property
    def sandbox(self) -> str:
        """Name of the sandbox level for commands that tools run."""
        return self.session.tool_context.launcher.level

    @property
    def auto_mode_problem(self) -> str:
        """Why auto mode is not available; "" if it is."""
        return self.session.tool_context.launcher.uncontained

    def test_permission(self, tool_name: str, subject: str) -> Decision:
        """The decision about a command, or about another tool's main argument. Does not count as a use of a rule."""
        context = self.session.tool_context
        tool = self.session.registry.get(tool_name)
        field = getattr(tool, "subject", None)
        needs: tuple[Need, ...] = (Need("other", subject),)
        if tool is not None and field is not None:
            needs = tool.needs({field: subject}, context)
        return self.permissions.preview(getattr(tool, "name", tool_name), {}, needs, context)

    def server_costs(self) -> list[ServerCost]:
        """What each MCP server costs in the next request."""
        session = self.session
        if session.server_tools is None:
            return []
        from agentcli.agent.mcp.updates import server_costs

        shown = session.view.messages(session.log.messages)
        loaded = session.requests.list_loaded_by(shown)
        return server_costs(session.server_tools, session.requests.tools, loaded, shown, self.context.density())

    def title_of(self, name: str, input: Json) -> str:
        """One-line description of a call, as in `ToolStarted`."""
        tool = self.session.registry.get(name)
        return title_of(tool, input, self.working_dirs[0]) if tool is not None else name

    # ---------------------------------------------------------------------------------------------------- history

    def take_history(self) -> list[ev.Event]:
        """The events that a resumed session has shown, in order, to be shown again; empty when called again. Blocks for
        seconds if the session is long."""
        recent, part = self.take_recent_history(), self.earlier_part
        if not recent or part is None:
            return recent
        from agentcli.session.load import no_garbage_collection, unreadable_lines

        try:
            with no_garbage_collection():
                sections = list(part.sections())
        except OSError:
            return recent
        skipped = sum(section.skipped for section in sections) - part.skipped
        history = [event for section in reversed(sections) for event in section.history] + recent
        if skipped:
            history.append(ev.NoticeRaised(text=unreadable_lines(skipped), level="warning", code="session"))
        return history

    @property
    def earlier_part(self) -> EarlierPart | None:
        """The beginning of a long resumed session, which `take_recent_history` does not return."""
        return self.session.resumed.earlier_part

    def take_recent_history(self) -> list[ev.Event]:
        """The events that follow `earlier_part`; empty the next time."""
        history = list(self.session.resumed.history)
        self.session.resumed.history.clear()
        if not history and self.session.log.messages:
            from agentcli.session.base import history_of

            return history_of(self.session.log.messages)
        return history

    def record_shown(self, event: ev.Event) -> None:
        """Record an event that a front end shows outside of a submission, so that a resumed session shows it again."""
        if event.policy.recorded == "shown":
            self._store.record(event)

    @property
    def title(self) -> str:
        """The name of the session, or its generated title; "" if it has none."""
        return self._store.title

    async def resume_name(self) -> str:
        """The session's name if `--resume` finds only this session by it, else its id."""
        return await in_thread(self._store.resume_name) if self._store.title else self.session_id

    # ------------------------------------------------------------------------------------------ answers and changes

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a `PermissionRequested` or a `CompactionProposed`; false if nothing waits for it any more."""
        return self.session.questions.answer(request_id, answer)

    def enqueue(self, prompt: Prompt, priority: Priority = "next", mentions: str | None = None) -> str:
        """Queue a prompt while a submission runs: `next` joins it after the next tool results, `later` when it would
        end, `now` at the first of both; the rest stays in `queue`. Returns the prompt's id. `mentions` as for
        `submit`."""
        queued = QueuedPrompt(self.session.ids.new(), prompt_blocks(prompt), priority, mentions)
        self.queue.add(queued)
        return queued.id

    def abort(self, reason: AbortReason = AbortReason.USER_CANCEL) -> None:
        """Stop the running submission; does nothing if none runs."""
        controller = self.session.controller
        if controller is None:
            return
        if reason not in (AbortReason.USER_CANCEL, AbortReason.INTERRUPT):
            self.session.abort(reason)
            return
        first = not controller.signal.aborted
        controller.abort(reason)
        if first:
            self._store.record(ev.SubmissionInterrupted(steering=reason is AbortReason.INTERRUPT))

    def set_model(self, model: str) -> None:
        self._change_profile(model=self.session.catalog.resolve(model))
        self.context.change_count += 1

    def set_small_model(self, model: str) -> None:
        """Set the model for side jobs."""
        self._change_profile(small_model=self.session.catalog.resolve(model))

    def set_effort(self, effort: Effort | None) -> None:
        self._change_profile(effort=effort)

    def set_fast(self, fast: bool) -> None:
        """Turn fast mode on or off. It stays on while a model is in use that has none."""
        self._change_profile(fast=fast)

    def set_thinking(self, thinking: Thinking) -> None:
        self._change_profile(thinking=thinking)

    def set_budget(self, dollars: float | None) -> None:
        """Set what the conversation may cost in this process; None: no limit."""
        self.costs.budget.set(dollars)
        self._store.note_input("budget", {"dollars": dollars})

    def _change_profile(self, **changes: Any) -> None:
        profile = self.session.settings.profile = replace(self.profile, **changes)
        # A resumed session continues with it, also if no request follows.
        choice = Front(profile.model, profile.effort, profile.thinking, fast=profile.fast)
        self.session.store.note_choice(choice.to_dict())

    # -------------------------------------------------------------------------------------------------- submissions

    def submit(self, prompt: Prompt, typed: str = "", mentions: str | None = None) -> AsyncGenerator[ev.Event, None]:
        """Run one prompt to its end. Closing the generator aborts the work and leaves nothing behind. `typed`: the text
        that the user sees, if it differs (pasted text as a placeholder). `mentions`: the text whose `@path` mentions
        are attached; None: the prompt's own, "": none."""
        message = Message("user", prompt_blocks(prompt), self.session.ids.new(), Origin.PROMPT)
        if typed and typed != message.text:
            message = replace(message, meta={TYPED: typed})
        return self._submission(SubmissionWork(prompt=message, mentions=mentions))

    def submit_defined(self, prompt: DefinedPrompt) -> AsyncGenerator[ev.Event, None]:
        """Run the prompt of a command or skill from a file. Its `!` commands run first; if one may not run, nothing is
        sent."""
        return self._submission(SubmissionWork(defined=prompt))

    def submit_requested(self, prompt: RequestedPrompt) -> AsyncGenerator[ev.Event, None]:
        """Run a prompt that must be fetched first, e.g. from an MCP server; if that fails, nothing is sent."""
        return self._submission(SubmissionWork(requested=prompt))

    def compact(self, focus: str = "", review: bool = False) -> AsyncGenerator[ev.Event, None]:
        """Shorten the conversation now (`/compact`). Also ends with one `Result`. `review`: in an interactive session a
        `CompactionProposed` waits for an `answer` before anything changes."""
        return self._submission(SubmissionWork(compaction=CompactArguments(focus, review)))

    def wake(self) -> AsyncGenerator[ev.Event, None]:
        """Let the model react to ended background tasks (`wakes.due`), without a prompt."""
        return self._submission(SubmissionWork(is_woken=True))

    def perform(self, work: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        """Run a command's own work as a submission. Its notices (code `command`) are the text of the `Result`."""
        return self._submission(SubmissionWork(command=work))

    def shell(self, command: str) -> AsyncGenerator[ev.Event, None]:
        """Run a command that the user typed; the model sees it with the next prompt or tool results. Beside a running
        submission it has no `Result`, and only `user_shell.stop` ends it; otherwise it is a submission itself."""
        outlet: Outlet[ev.Event] = Outlet()
        events = outlet.deliver(self.user_shell.run(command, outlet.emit))
        return self._record_line(events) if self.running else self.perform(events)

    def _submission(self, work: SubmissionWork) -> AsyncGenerator[ev.Event, None]:
        submission = Submission(self.session, work).run()
        if not self.running:
            self._open = submission
        return submission

    async def _record_line(self, line: AsyncGenerator[ev.Event, None]) -> AsyncGenerator[ev.Event, None]:
        """Record a shell command beside a submission, to be shown again after a resume."""
        async with aclosing(line) as events:
            async for event in events:
                self._store.record(event)
                yield event

    # ------------------------------------------------------------------------------------------------ start and end

    def tool_host(self) -> SessionToolHost:
        """An object that runs single tools of this session for another program."""
        from agentcli.agent.tool_host import SessionToolHost

        return SessionToolHost(self.session)

    async def warm(self) -> None:
        """Do ahead of time what makes the first request and the first change slow."""
        session = self.session
        await self.live_files.refresh()
        self.session.use_plugins()
        self.session.begin_session()
        if session.mcp is not None and session.parent is None:
            session.mcp.start()
        await session.provider.warm()
        if session.permissions.is_late:
            await session.permissions.warm()
        await session.workspace.warm(self.working_dirs)

    async def reread(self) -> None:
        """Read settings, hooks, definitions, plugins, MCP servers and permission rules again, as trust allows now."""
        await self.live_files.refresh_settings(force=True)
        await self.live_files.refresh()

    async def aclose(self, reason: str = "other", *, ends_servers: bool = True) -> None:
        """End what runs beside submissions, close connections and the session file. `reason`: clear, resume, exit or
        other, for SessionEnd hooks. `ends_servers`: also the MCP servers, which may take seconds; else the caller
        closes `mcp`."""
        session = self.session
        self.abort(AbortReason.SHUTDOWN)
        session.user_shell.stop()
        if self._open is not None:
            # "Already running": a consumer is reading it at this moment, and the abort ends it there.
            with suppress(RuntimeError):
                await self._open.aclose()
        if session.parent is not None:
            try:
                await session.aclose()
            finally:
                session.store.close()
            return
        try:
            await session.agents.aclose()
            await session.background.aclose()
            await asyncio.gather(session.finish_hooks(), session.hooks.after_session(reason))
        finally:
            await session.aclose()
            session.log.record_mode(session.permissions)
            if session.permissions.mode is not session.first_mode:
                # Also without a prompt: a resumed session continues in the mode that was chosen last.
                session.store.write_waiting()
            if session.mcp is not None and ends_servers:
                await session.mcp.aclose()
            await session.workspace.aclose()
            await session.provider.aclose()
            session.store.close()
            launcher = session.tool_context.launcher
            if launcher.name == Launcher.name:
                launcher.close()
            else:
                # A search for planted files may have to end first.
                await in_thread(launcher.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()
