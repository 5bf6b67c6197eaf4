"""What an engine holds, for anybody to look at, and what can be done to it at any time: its state, the commands in the
background, and files that were changed. The work itself is the engine's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.cache.watch import Setup
from agentcli.agent.conversation import Conversation
from agentcli.agent.costs.spending import Budget, Spending
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.profile import ConversationRequests, Profile, price_of
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.agent.questions import Asking, Audience, Questions
from agentcli.agent.shell_line import ShellLines
from agentcli.agent.updates.undo_notes import Note, forget_changed, undo_note
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, AbortSignal
from agentcli.core.ids import seconds_between
from agentcli.core.messages import Json, Message, Origin
from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.core.usage import CacheLosses, Totals
from agentcli.memory.instructions import InstructionFile
from agentcli.memory.notes import Notes
from agentcli.permissions.policy import Policy
from agentcli.providers.catalog import Catalog
from agentcli.tools.builtin import in_thread
from agentcli.tools.planning.todowrite import todos_from
from agentcli.tools.shell.background import BackgroundTask
from agentcli.tools.titles import title_of
from agentcli.workspace.base import Choices, DiffScope, FileChange, UndoPlan, UndoReport, WorkspaceDiff

if TYPE_CHECKING:
    from agentcli.tools.search.file_index import FileIndex


_RULES_POLLED_SECONDS = 2.0
"""Three `stat` calls: cheaper than a watcher, and it sees files in folders that do not exist yet."""
CHANGED_BEFORE = "old content was dropped, restored or shortened before the session was left"


class Holdings:
    """All of an engine that is not its work."""

    def __init__(self, conversation: Conversation) -> None:
        self._parts = conversation
        self._log: list[Message] = list(conversation.log)
        self._profile = conversation.profile
        self._late_system = conversation.late_system
        self._tool_context = conversation.tool_context
        self._totals = Totals()
        self._queue = PromptQueue()
        self._questions = Questions(conversation.audience)
        estimator = conversation.view.estimator
        self._requests = ConversationRequests(
            lambda: self._profile, conversation.registry.schemas(), lambda: estimator.density
        )
        self._controller: AbortController | None = None
        self._model_works = False
        """A submission is under way that is not only a command of the person's."""
        self._open: AsyncGenerator[ev.Event, None] | None = None
        self._detached: set[asyncio.Task[None]] = set()
        self._notices = list(conversation.notices)
        self._denials: list[dict[str, Any]] = []
        self._notes: list[Note] = []
        """What the user did that the model has not been told yet."""
        self._given_notes: list[Message] = []
        """The messages that told it last."""
        self._shell = ShellLines(conversation.tool_context.root)
        self._rewritten: set[str] = set()
        """Files that undo and redo have written since the last prompt."""
        self._todos: list[Json] = todos_from(conversation.log)
        self._budget = Budget(conversation.bounds.max_budget_usd)
        self._spending = Spending(
            price_of(conversation.catalog),
            lambda: conversation.view.messages(conversation.log),
            lambda: estimator.density,
        )
        self._resume_watch(conversation)

    def _resume_watch(self, own: Conversation) -> None:
        """What the last reply of an earlier process left in the prompt cache may be warm still."""
        own.watch.keep_fronts(
            lambda: own.view.user_context(self._log), lambda front: own.store.note_front(front.to_dict())
        )
        replies = [message for message in own.log if message.usage is not None]
        if replies:
            idle = seconds_between(own.last_reply_at, own.clock.timestamp())
            made_with = Setup(replies[-1].model or own.profile.model, own.profile.effort, own.profile.thinking)
            at = own.clock.monotonic() - (idle or 0.0)
            boundary = own.view.edits.boundary(own.log)
            compacted = next(m is boundary for m in reversed(own.log) if m is boundary or m is replies[-1])
            changed = None if compacted else own.view.changed_since(own.log, replies[-1].id)
            own.watch.resume(replies, made_with, at, compacted=compacted, freed=changed[1] if changed else 0)
            if own.last_front is not None:
                own.watch.recall(own.last_front, self._requests.build((), 1, "turn"))
            if changed:
                own.watch.explain(CHANGED_BEFORE)

    # ------------------------------------------------------------------------------------------------ what it knows

    @property
    def session_id(self) -> str:
        return self._parts.store.session_id

    @property
    def persistent(self) -> bool:
        """Whether the conversation is kept in a file."""
        return self._parts.store.path is not None

    @property
    def running(self) -> bool:
        return self._controller is not None

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._log)

    @property
    def totals(self) -> Totals:
        """Since the process began."""
        return self._totals

    @property
    def totals_of_session(self) -> Totals:
        """Together with what was used before it was resumed."""
        return self._totals.together(self._parts.earlier)

    @property
    def earlier(self) -> Totals:
        """What was used before it was resumed."""
        return self._parts.earlier

    @property
    def spending(self) -> Spending:
        """Where the totals went: per submission, per agent, per purpose, per tool."""
        return self._spending

    @property
    def cache_losses(self) -> CacheLosses:
        """How often the prompt cache was of no use, and what that was billed, in this process."""
        return self._parts.watch.losses

    @property
    def cache_losses_usd(self) -> float | None:
        """What that cost more than reading from the cache would have; None when a price is not known."""
        return self.cache_losses.cost_usd(price_of(self.catalog))

    @property
    def budget(self) -> float | None:
        """What the session may cost in dollars, in this process; None: no bound."""
        return self._budget.cap

    @property
    def denials(self) -> list[dict[str, Any]]:
        return list(self._denials)

    @property
    def todos(self) -> list[Json]:
        """The task list as the model last wrote it, also in the part of the session that was resumed."""
        return list(self._todos)

    def file_index(self) -> FileIndex:
        """For finding files by name as it is typed; whoever takes one starts and closes it."""
        from agentcli.tools.search.file_index import FileIndex

        return FileIndex(self._tool_context)

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def model(self) -> str:
        return self._profile.model

    @property
    def catalog(self) -> Catalog:
        return self._parts.catalog

    @property
    def policy(self) -> Policy:
        """The permission rules in force."""
        return self._parts.permissions.policy

    @property
    def permissions(self) -> LivePermissions:
        """The permission rules, to list and change them."""
        return self._parts.permissions

    def test_permission(self, tool_name: str, subject: str) -> Decision:
        """What would be decided about a command, or what another tool's main argument names. Nothing is counted."""
        tool = self._parts.registry.get(tool_name)
        field = getattr(tool, "subject", None)
        needs: tuple[Need, ...] = (Need("other", subject),)
        if tool is not None and field is not None:
            needs = tool.needs({field: subject}, self._tool_context)
        return self._parts.permissions.preview(getattr(tool, "name", tool_name), {}, needs, self._tool_context)

    async def rule_changes(self) -> str:
        """Wait until a settings file changed the permission rules; says how. For between submissions: while one runs,
        its events tell. Cancel it."""
        while True:
            self._parts.permissions.refresh()
            if (text := self._parts.permissions.take_notice()) is not None:
                return text
            await asyncio.sleep(_RULES_POLLED_SECONDS)

    @property
    def notes(self) -> Notes | None:
        """The project's memory; None: it is off."""
        return self._parts.notes

    def instruction_files(self) -> tuple[InstructionFile, ...]:
        """The instruction files that hold everywhere in the project, as they are now. Blocking."""
        files = self._parts.instruction_files
        found = files.always().files if files is not None else ()
        return tuple(file for file in found if file.kind == "instructions")

    @property
    def cwd(self) -> Path:
        """Where the next command of the Bash tool runs."""
        return self._tool_context.cwd

    @property
    def root(self) -> Path:
        """The project's root: relative paths of file tools and `@` mentions start here."""
        return self._tool_context.root

    @property
    def shell_cwd(self) -> Path:
        """Where the next command runs that the user types behind a `!`."""
        return self._shell.cwd

    @property
    def model_works(self) -> bool:
        """Whether a submission runs that is more than a command of the user's."""
        return self._model_works

    @property
    def working_dirs(self) -> tuple[Path, ...]:
        return self._tool_context.working_dirs

    @property
    def interactive(self) -> bool:
        """Whether somebody is there to answer questions; else prompts may come from a program, or from anybody."""
        return self._questions.audience is Audience.SOMEBODY

    @property
    def previews_compaction(self) -> bool:
        """Whether `/compact` waits for somebody to look at the summary."""
        return self.interactive and self._parts.tuning.compact_preview

    @property
    def confirm_cost_above(self) -> float:
        """Dollars from which a change that makes the prompt cache useless is confirmed first."""
        return self._parts.tuning.confirm_cost_above

    @property
    def sandbox(self) -> str:
        """What holds the commands that tools run."""
        return self._tool_context.launcher.level

    @property
    def auto_mode_problem(self) -> str:
        """Why auto mode is not available; empty when it is."""
        return self._tool_context.launcher.uncontained

    @property
    def permission_mode(self) -> PermissionMode:
        return self._parts.permissions.mode

    def asking(
        self, title: str, reason: str, display: Json, input: Json | None = None, signal: AbortSignal | None = None
    ) -> Asking | None:
        """A question of our own, to be put with the events of what asks; None: nobody is there to answer it. `signal`:
        what withdraws it, if not the end of the command that asks."""
        if not self.interactive:
            return None
        question = ev.PermissionRequested(
            request_id=self._parts.ids.new(),
            tool_use_id="",
            name="agentcli",
            input=input or {},
            title=title,
            reason=reason,
            display=display,
        )
        if signal is None and self._controller is not None and not self._model_works:
            # A command beside a submission of the model's is not stopped with it.
            signal = self._controller.signal
        return Asking(question, self._questions, signal)

    def take_notices(self) -> list[ev.NoticeRaised]:
        """What there is to say before the first submission, which else says it."""
        notices, self._notices = self._notices, []
        return notices

    def take_history(self) -> list[ev.Event]:
        """What a resumed session has shown, in order, for a front end to show again; empty the next time."""
        history = list(self._parts.history)
        self._parts.history.clear()
        if not history and self._log:
            from agentcli.session.history import history_of

            return history_of(self._log)
        return history

    def note_shown(self, event: ev.Event) -> None:
        """Record what a front end shows beside the events of a submission, to be shown again after a resume."""
        from agentcli.session.history import SHOWN_ONLY

        if isinstance(event, SHOWN_ONLY):
            self._parts.store.record(event)

    def title_of(self, name: str, input: Json) -> str:
        """One line for people about a call, as `ToolStarted` has it."""
        tool = self._parts.registry.get(name)
        return title_of(tool, input, self.working_dirs[0]) if tool is not None else name

    def rename(self, title: str) -> None:
        """The name under which the session is listed and found."""
        self._parts.store.set_title(title)

    # ------------------------------------------------------------------------------------------- background commands

    @property
    def background_tasks(self) -> list[BackgroundTask]:
        """The background commands of the session, the oldest first, also those that have ended."""
        shells = self._tool_context.shells
        return [shell.task for shell in shells.known()] if shells is not None else []

    def background_output(self, task_id: str) -> str:
        """What a background command has put out so far; its middle is left out when it is long."""
        shells = self._tool_context.shells
        shell = shells.get(task_id) if shells is not None else None
        return shell.command.output.text() if shell is not None else ""

    def background(self, tool_use_id: str) -> bool:
        """Send the command that this call runs to the background; false if it runs none."""
        shells = self._tool_context.shells
        return shells is not None and shells.detach(tool_use_id)

    async def background_changes(self) -> list[ev.BackgroundChanged]:
        """Wait until background commands have begun or ended. For between submissions: while one runs, its events tell.
        Without background commands this never returns; cancel it."""
        if self._tool_context.shells is None:
            await asyncio.Event().wait()
        else:
            await self._tool_context.shells.wait_for_change()
        return self._recorded_changes()

    async def file_changes(self) -> str:
        """Wait until somebody else has changed files that the model has seen; says which. For between submissions.
        Where the disk is not watched this never returns; cancel it."""
        from agentcli.agent.updates.file_watch import changed_notice, wait_for_changes

        if self._parts.watched is None:
            await asyncio.Event().wait()
        assert self._parts.watched is not None
        paths = await wait_for_changes(self._parts.watched, self._tool_context, frozenset(self._rewritten))
        return changed_notice(paths, self._tool_context)

    async def stop_background(self, task_id: str) -> bool:
        """End a background command; false if there is none."""
        shells = self._tool_context.shells
        shell = shells.get(task_id) if shells is not None else None
        if shells is None or shell is None:
            return False
        await shells.stop(shell)
        return True

    async def end_background(self) -> list[ev.BackgroundChanged]:
        """End all background commands, as closing the engine does; returns how each ended."""
        if self._tool_context.shells is not None:
            await self._tool_context.shells.end_all()
        return self._recorded_changes()

    def _recorded_changes(self) -> list[ev.BackgroundChanged]:
        """Between submissions nothing else takes the events in. A session without a message has no file."""
        changes = self._background_changes()
        if self._log:
            for event in changes:
                self._parts.store.record(event)
        return changes

    def _background_changes(self) -> list[ev.BackgroundChanged]:
        shells = self._tool_context.shells
        return [
            ev.BackgroundChanged(task_id=task.id, status=task.status, command=task.command, summary=task.summary)
            for task in (shells.take_changes() if shells is not None else ())
        ]

    # --------------------------------------------------------------------------------------------- files and undo

    async def changes(self) -> list[FileChange]:
        """What the last submission did to files and was not undone."""
        return await self._parts.seams.workspace.changes()

    async def diff(self, scope: DiffScope = "session") -> WorkspaceDiff:
        """Changes of files as unified diffs; `problem` says why there are none."""
        return await self._parts.seams.workspace.diff(scope, self.working_dirs)

    async def undo(self, choices: Choices | None = None) -> UndoReport:
        """Put back what the last submission did to files; each further time one submission further back.

        Not while a submission runs. What the user changed stays; files in which both changed the same lines need a
        choice, or are in the report and stay. The model is told with the next prompt."""
        return self._put_back(await self._parts.seams.workspace.undo(choices))

    async def redo(self, choices: Choices | None = None) -> UndoReport:
        """Take the last undo back, until something else has been changed."""
        return self._put_back(await self._parts.seams.workspace.redo(choices))

    async def undo_plan(self, again: bool = False, choices: Choices | None = None) -> UndoPlan:
        """What an undo (`again`: a redo) needs a choice for beyond `choices`. Changes nothing."""
        return await self._parts.seams.workspace.plan(again, choices)

    def _put_back(self, report: UndoReport) -> UndoReport:
        self._rewritten.update(report.touched)
        return report

    async def _note_undone(self) -> None:
        """Make one note of all undos and redos since the last prompt; none if they cancel each other out."""
        news = await self._parts.seams.workspace.take_undo_news()
        paths, self._rewritten = self._rewritten, set()
        paths.update(path for one in news for path in (*one.restored, *one.deleted))
        if paths:
            await in_thread(forget_changed, paths, self._tool_context.read_cache)
        if news:
            prompts = {message.id: message.text for message in self._log if message.origin is Origin.PROMPT}
            self._notes.append(undo_note(news, prompts))

    async def warm(self) -> None:
        """Do ahead of time what makes the first request and the first change slow."""
        await self._parts.provider.warm()
        await self._parts.seams.workspace.warm(self._tool_context.working_dirs)

    def _kept(self, event: ev.Event) -> None:
        if not any(event is notice for notice in self._parts.notices):
            # What a start has to say is said again by the next one.
            self._parts.store.record(event)
        if isinstance(event, ev.MessageAppended):
            self._log.append(event.message)
            if event.message.origin is Origin.QUEUED:
                # In the same step as the log gets it: a prompt is never in both places, and never in neither.
                self._queue.remove(event.message.id)
