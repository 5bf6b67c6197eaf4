"""`Session`: the live conversation. It owns each of its values once and is passed whole to every stage of the loop.

`assemble` builds one from settings and a session file; `child` makes that of a sub-agent. Events leave through `emit`,
which records them first (`conversation_log.Delivery`). Never here: what happens in a submission, which is in
`agent/submission.py` and `agent/loop/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agentcli.agent.attachments.mentions import Mentions
from agentcli.agent.attachments.state_notes import Composite, UserNotes
from agentcli.agent.background import BackgroundCommands, Wakes
from agentcli.agent.context.control import ContextControl
from agentcli.agent.conversation_log import ConversationLog, Delivery
from agentcli.agent.costs.cache_watch import CacheWatch, Front, RequestDigests
from agentcli.agent.costs.costs import Costs, Spending
from agentcli.agent.file_changes import ChangedFiles, FileChanges
from agentcli.agent.live_files import Configuration, LiveFiles
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.loop_state import Limits, LoopState
from agentcli.agent.plugins import Owned, SessionPlugins
from agentcli.agent.ports import (
    END_SECONDS,
    Attachments,
    Collapser,
    EmitEvent,
    HookChain,
    Hooks,
    PromptQueue,
    Questions,
    Staging,
    UserQuestion,
)
from agentcli.agent.profile import ConversationRequests, LoadedTools, ModelSettings, Profile, price_of
from agentcli.agent.shell_line import UserShell
from agentcli.agent.side_call import Summaries
from agentcli.agent.subagents.agents import AgentList, AgentReports, Agents, lost_agents
from agentcli.agent.subagents.specs import TASK, AgentSetup
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.context.compact import find_pinned
from agentcli.context.steps import ContextLimits, Pipeline
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, Aborted, AbortReason, AbortSignal, cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids, seconds_between
from agentcli.core.messages import Json, Message
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.usage import Totals
from agentcli.definitions.library import Library
from agentcli.memory.instructions import InstructionFiles
from agentcli.memory.notes import Notes
from agentcli.providers.base import Provider
from agentcli.providers.catalog import Catalog
from agentcli.session.base import Store
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.planning import todos_from
from agentcli.tools.registry import Registry
from agentcli.workspace.base import Workspace

if TYPE_CHECKING:
    from agentcli.agent.context.compaction_restore import Restored
    from agentcli.agent.mcp.requests import ServerQuestions
    from agentcli.agent.mcp.server_tools import ServerToolLimits, ServerTools
    from agentcli.agent.mcp.updates import ServerNotices
    from agentcli.hooks.runner import HookRunner
    from agentcli.mcp.servers import McpServers
    from agentcli.session.recent_messages import EarlierPart

LateSystem = Callable[[], Callable[[], tuple[str, ...]]]
"""Gathers the data of a system prompt (blocking, for a thread); the returned function builds and records the prompt."""
CHANGED_BEFORE = "old content was dropped, restored or shortened before the session was closed"


@frozen
class Resumed:
    """What a session file has of an earlier process; empty for a new session."""

    log: tuple[Message, ...] = ()
    history: list[ev.Event] = field(default_factory=list)
    """Events that the session has shown; the front end removes them from the list."""
    earlier_part: EarlierPart | None = None
    """The beginning of a long session, which is not in `history`, and of which `log` has only a few messages."""
    mode: tuple[str, str] = (PermissionMode.DEFAULT.value, "")
    """Last `mode` and `returns_to` of a `ModeChanged`; "": there is none, so the first mode is recorded in any case."""
    last_reply_at: str = ""
    """Timestamp of the last reply; "" if unknown."""
    last_front: Front | None = None
    """Front of the last request; None if unknown."""
    totals: Totals = Totals()
    """Usage. It does not count towards the budget."""


@dataclass(kw_only=True, eq=False, repr=False)
class Session:
    provider: Provider
    own_tools: Registry
    """All tools but those of plugins and MCP servers."""
    store: Store
    permissions: LivePermissions
    settings: ModelSettings
    """Model, effort and limits, which the user can change."""
    tool_context: ToolContext
    """With the working directory of the next command."""
    ids: Ids
    clock: Clock
    interactive: bool = False
    """Whether a user can answer questions."""
    hooks: Hooks = field(default_factory=HookChain)
    """The active hooks: those of files, and those of plugins."""
    collapser: Collapser = field(default_factory=Collapser)
    attachments: Attachments = field(default_factory=Attachments)
    """All updates for the model, before a request."""
    workspace: Workspace = field(default_factory=Workspace)
    view: ContextView = field(default_factory=ContextView)
    pipeline: Pipeline = field(default_factory=lambda: Pipeline(()))
    """The steps that shorten old content."""
    watch: CacheWatch = field(default_factory=CacheWatch)
    pins: set[str] = field(default_factory=set)
    """Names (`context.compact.pin_name`) of the blocks that the user has pinned; changed in place."""
    resumed: Resumed = field(default_factory=Resumed)
    recorded_settings: Json = field(default_factory=dict)
    """Settings that a replay of the session needs, recorded with the first prompt; empty once that is done."""
    source: str = "startup"
    """startup, resume or clear: for SessionStart hooks."""
    notices: tuple[ev.NoticeRaised, ...] = ()
    """Shown once, with the first submission: settings problems, findings while resuming."""
    auto_mode_offer: Callable[[], str] = lambda: ""
    """A sentence to show with the first prompt while the mode is still the default one; "" for none."""
    api_key_source: str = ""
    wants_structured: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's complete environment, for commands that they type themselves."""
    late_system: LateSystem | None = None
    """Completes the system prompt with the first prompt, from data partly gathered during the start; None once that is
    done."""
    output_style: str = ""
    """Name of the output style in the system prompt; "" for the default one."""
    notes: Notes | None = None
    """The project's memory; None: it is off."""
    instruction_files: InstructionFiles | None = None
    instruction_notices: list[str] = field(default_factory=list)
    """Sentences for the user, added by others; the delivery of events takes them out."""
    watched: ChangedFiles | None = None
    """Finds files that others changed between submissions; None: the disk is not watched."""
    configuration: Configuration | None = None
    """The files of settings, hooks and MCP servers; None: they are read once."""
    watches_definitions: bool = False
    """Whether changes of settings, definitions and plugins are also noticed between submissions."""
    definitions: Library | None = None
    """Commands, skills, agents and output styles from files, read again with every submission; None: none are used."""
    plugins: SessionPlugins | None = None
    """Python plugins; None: they are off."""
    mcp: McpServers | None = None
    """MCP servers; None: there are none. A sub-agent has the session's."""
    mcp_limits: ServerToolLimits | None = None
    """Limits on which of the servers' tools are offered; None: all are."""
    agent_setup: AgentSetup | None = None
    """Configuration of sub-agents; None: there are none."""
    parent: Session | None = None
    """For a sub-agent: the session that started it. Questions, budget, provider, permissions, sandbox, background
    commands and workspace are then that session's, and this one does not close them."""
    agent: str = ""
    """The id of a sub-agent; "" for the main conversation."""

    def __post_init__(self) -> None:
        parent, resumed = self.parent, self.resumed
        self.price = price_of(self.catalog)
        """Gives the dollars for a model's usage; None: the price is unknown."""
        self.controller: AbortController | None = None
        """Abort controller of the running submission."""
        self.delivery: Delivery | None = None
        """Takes the events of the running submission to its consumer."""
        self.is_model_working = False
        """Whether the running submission is more than a command of the user's."""
        self.is_answering = False
        """Whether a prompt is answered, with the settings that it began with."""
        self.first_mode = self.permissions.mode
        self.questions: Questions = parent.questions if parent is not None else Questions(interactive=self.interactive)
        self.queue = PromptQueue()
        """Prompts that no submission has picked up yet."""
        self.log: ConversationLog = ConversationLog(
            resumed.log, self.store, self.queue, self.notices, resumed.earlier_part, resumed.mode
        )
        self._open_tools_and_costs()
        self._open_work()
        self.session_hooks: asyncio.Task[tuple[str, ...]] | None = None
        """The running SessionStart hooks, if they were started before the first prompt."""
        self.session_begun = False
        """Whether the SessionStart hooks were started."""
        configured, self.hooks = self.hooks, HookChain()
        self.use_hooks(configured)
        self.server_notices: ServerNotices | None = None
        """About MCP servers; None: there are none."""
        self.server_questions = self._bind_servers()
        """Questions of MCP servers to the user; None: there are no servers."""
        self.live_files = LiveFiles(self)
        if self.plugins is not None:
            self.plugins.is_answering = lambda: self.is_answering
        self._detached: set[asyncio.Task[None]] = set()
        self._detached_hooks: set[asyncio.Task[None]] = set()

    def _open_tools_and_costs(self) -> None:
        parent, resumed = self.parent, self.resumed
        self.loaded_tools = LoadedTools(lambda model: self.catalog.get(model).tool_references)
        self._tools = self.own_tools
        """With the tools of plugins, without those of MCP servers."""
        self.server_tools = self._new_server_tools(resumed.log)
        """The tools of MCP servers; None: there are no servers."""
        self._plugin_tools: Sequence[Tool] | None = None
        self._plugin_hooks: Sequence[Owned] = ()
        self._plugin_runner: HookRunner | None = None
        """Runs the hooks of plugins; None until there are some."""
        self.requests: ConversationRequests = ConversationRequests(
            lambda: self.settings.profile, self.registry.schemas(), self.loaded_tools
        )
        spending = Spending(
            self.price,
            lambda: self.view.messages(self.log.messages),
            lambda: self.requests.overhead_tokens() + self.view.tokens_of(self.log.messages),
        )
        self.costs: Costs = Costs(
            self.catalog,
            self.watch,
            spending,
            self.settings.bounds.max_budget_usd,
            resumed.totals,
            interactive=self.interactive,
            charged=(parent.costs, self.agent) if parent is not None else None,
        )
        self._explain_budget = lambda: self.costs.budget.text
        self.digests = RequestDigests()
        self._resume_watch()

    def _open_work(self) -> None:
        self.context = ContextControl(self)
        self.files = FileChanges(self.workspace, lambda: self.tool_context, self.watched)
        self.agents: Agents = Agents(self)
        shells = self.tool_context.shells if self.parent is None else None
        self.background = BackgroundCommands(shells, self.log.record_if_begun, self.agents)
        self.wakes = Wakes(
            self.background, self.costs, lambda: self.settings.bounds.max_turns, lambda: self.controller is not None
        )
        self.user_shell = UserShell(self)
        self.user_notes = UserNotes(self.log, self.ids)
        self.attachments = Composite(self.user_notes, *self._agent_updates(), *self._server_updates(), self.attachments)
        self.runner = ToolRunner(self)
        self.summaries = Summaries(self)
        self.denials: list[dict[str, Any]] = []
        self.todos: list[Json] = todos_from(self.resumed.log)
        self._unshown_notices = list(self.notices)

    def child(self, agent: str, **own: Any) -> Session:
        """The session of a sub-agent. It shares what is named here; `own` is everything else."""
        shared = {
            name: getattr(self, name) for name in ("provider", "ids", "clock", "interactive", "environ", "agent_setup")
        }
        return Session(parent=self, agent=agent, **shared, **own)

    # --------------------------------------------------------------------------------------------------------- facts

    @property
    def main(self) -> Session:
        """The session of the user: this one, or the one whose sub-agent this is."""
        return self if self.parent is None else self.parent.main

    @property
    def depth(self) -> int:
        """Nesting level: 0 for the main conversation, 1 for an agent that it started."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def catalog(self) -> Catalog:
        return self.settings.catalog

    @property
    def profile(self) -> Profile:
        return self.settings.profile

    @property
    def registry(self) -> Registry:
        """All tools that are available now."""
        return self._tools if self.server_tools is None else self.server_tools.registry(self._tools)

    @property
    def limits(self) -> Limits:
        return self.settings.limits(self._explain_budget)

    @property
    def context_limits(self) -> ContextLimits:
        return self.settings.context_limits(self.requests.overhead_tokens())

    @property
    def signal(self) -> AbortSignal | None:
        """Signal of the running submission; None: nothing runs."""
        return self.controller.signal if self.controller is not None else None

    @property
    def command_signal(self) -> AbortSignal | None:
        """Signal that stops the user's own command; None for one that runs beside the model's work, which is not
        stopped with it."""
        return None if self.controller is None or self.is_model_working else self.controller.signal

    def loop_state(self) -> LoopState:
        """The state in which the loop of a submission begins."""
        self.log.take_in()
        return LoopState(self.log.messages, self.tool_context)

    def note_settings(self) -> None:
        if self.recorded_settings and self.log.messages:
            self.store.note_input("settings", self.recorded_settings)
            self.recorded_settings = {}

    def note_answer(self, answer: Answer | None) -> None:
        """Record the user's answer to a question that belongs to no call."""
        if answer is not None:
            self.store.note_input("answer", {name: value for name, value in asdict(answer).items() if value})

    def mentions(self) -> Mentions | None:
        """Attaches mentioned files; None without a tool that reads."""
        read = self.own_tools.get("Read")
        return None if read is None else Mentions(read, self.permissions, self.questions, self.ids, self.mcp)

    async def restore(
        self, log: Sequence[Message], files: Sequence[str], budget: int, signal: AbortSignal, skills: Sequence[str]
    ) -> Restored:
        """Content from outside the conversation that a compaction puts into it again. Raises `Aborted`."""
        from agentcli.agent.context.compaction_restore import restore_within

        return await restore_within(self, log, files, budget, signal, skills)

    # -------------------------------------------------------------------------------------------------------- events

    @property
    def emit(self) -> EmitEvent:
        """Records an event of the running submission, then hands it to the consumer: the only way out."""
        assert self.delivery is not None
        return self.delivery.emit

    def emit_soon(self, event: ev.Event) -> None:
        """The same without waiting for the consumer; does nothing if there is none."""
        if self.delivery is not None:
            self.delivery.emit_soon(event)

    def deliver(self, work: Coroutine[Any, Any, object]) -> AsyncGenerator[ev.Event, None]:
        """Run work of the running submission and yield what it emits."""
        assert self.delivery is not None
        return self.delivery.deliver(work)

    def abort(self, reason: AbortReason = AbortReason.USER_CANCEL) -> None:
        """Stop the running submission; does nothing if none runs."""
        if self.controller is not None:
            if reason is not AbortReason.BUDGET and not self.controller.signal.aborted:
                self.store.note_input("abort", {"reason": reason.value})
            self.controller.abort(reason)

    def add_notices(self, notices: Iterable[ev.NoticeRaised]) -> None:
        self._unshown_notices += notices

    def take_notices(self) -> list[ev.NoticeRaised]:
        """Notices of the start and of reloaded settings, for the first caller: a front end or a submission."""
        notices, self._unshown_notices = self._unshown_notices, []
        return notices

    def question(
        self, title: str, reason: str, display: Json, input: Json | None = None, signal: AbortSignal | None = None
    ) -> UserQuestion | None:
        """A question of agentcli itself, like a permission request; None: non-interactive. `signal` withdraws it."""
        if not self.interactive:
            return None
        question = ev.PermissionRequested(
            request_id=self.ids.new(),
            tool_use_id="",
            name="agentcli",
            input=input or {},
            title=title,
            reason=reason,
            display=display,
        )
        return UserQuestion(question, self.questions, signal or self.command_signal)

    # --------------------------------------------------------------------------------------------------------- hooks

    def use_hooks(self, hooks: Hooks) -> None:
        """Use these hooks, and those of plugins."""
        self._configured_hooks = hooks
        if self._plugin_runner is not None:
            from agentcli.agent.configured_hooks import ConfiguredHooks

            hooks = HookChain((hooks, ConfiguredHooks(self._plugin_runner)))
        before, self.hooks = self.hooks, hooks
        hooks.bind(self._describe, before.listing())

    def _describe(self) -> Json:
        """The fields that all hooks get."""
        return {
            "session_id": self.store.session_id,
            "transcript_path": str(self.store.path or ""),
            "cwd": str(self.tool_context.cwd),
            "permission_mode": self.permissions.mode.value,
        }

    def begin_session(self) -> None:
        """Start the SessionStart hooks, if there are hooks. The first prompt waits for them."""
        if not self.session_begun and self.hooks.configured:
            self.session_begun = True
            self.session_hooks = start_task(self.hooks.before_session(self.source))

    # --------------------------------------------------------------------------------------------------------- tools

    def _new_server_tools(self, log: Sequence[Message]) -> ServerTools | None:
        if self.mcp is None:
            return None
        from agentcli.agent.mcp.server_tools import ServerToolLimits, ServerTools

        def refuses(name: str) -> bool:
            return self.permissions.policy.refuses_always(name)

        return ServerTools(self.mcp, self.mcp_limits or ServerToolLimits(), refuses, self.loaded_tools, log)

    def _agent_updates(self) -> tuple[Attachments, ...]:
        if self.agent_setup is None or self.own_tools.get(TASK) is None:
            return ()
        listed = AgentList(self.agents.defined, self.ids, self.view.list_shown_messages)
        # A sub-agent may have a copy of its parent's log; the parent's agents are not its own.
        lost = lost_agents(self.resumed.log) if self.parent is None else ()
        return (listed, AgentReports(lambda: self.agents.background_runs, self.ids, lost))

    def _server_updates(self) -> tuple[Attachments, ...]:
        if self.server_tools is None:
            return ()
        from agentcli.agent.mcp.updates import McpUpdates

        return (McpUpdates(self.server_tools, self.use_servers, self.ids, self.view.messages),)

    def _bind_servers(self) -> ServerQuestions | None:
        """Let MCP servers know this conversation."""
        servers = self.mcp
        if servers is None or self.parent is not None:
            return None
        from agentcli.agent.mcp.requests import SessionRequests
        from agentcli.agent.mcp.updates import ServerNotices

        self.server_notices = ServerNotices(servers)
        return servers.requests.bind(self) if isinstance(servers.requests, SessionRequests) else None

    def add_servers(self, servers: McpServers, limits: ServerToolLimits) -> None:
        """Give a session without MCP servers its first ones. Their tools are deferred; if a request was sent already,
        the search for them changes the prefix of the next one."""
        self.mcp, self.mcp_limits = servers, limits
        self.server_tools = self._new_server_tools(self.log.messages)
        self.attachments = Composite(*self._server_updates(), self.attachments)
        self.server_questions = self._bind_servers()

    def use_servers(self) -> None:
        """Decide which tools of MCP servers the next request has. Tools that arrive later are deferred so that the
        prefix stays unchanged, unless the settings turn that off."""
        assert self.server_tools is not None
        first = self.server_tools.choose_direct_tools()
        if first and self.server_tools.direct() and self.parent is None:
            self.store.note_server_tools(self.server_tools.direct_records())
        self._use_schemas(first, "tools of MCP servers were loaded")

    def use_plugins(self) -> None:
        """Use the tools and hooks of plugins as they are now. Called between submissions."""
        if self.plugins is None:
            return
        self._use_plugin_tools(self.plugins.active.tools)
        parts = self.plugins.active.hooks
        if parts != self._plugin_hooks:
            from agentcli.agent.plugins import hook_rules, plugin_runner

            self._plugin_hooks = parts
            is_new = self._plugin_runner is None
            self._plugin_runner = self._plugin_runner or plugin_runner(self.tool_context.root, self.ids, self.clock)
            self._plugin_runner.rules = hook_rules(parts, self.plugins.collection.loading.log)
            if is_new:
                self.use_hooks(self._configured_hooks)

    def _use_plugin_tools(self, tools: Sequence[Tool]) -> None:
        """Offer the tools of plugins from the next request on. If only their code changed, requests stay the same; a
        changed, new or removed tool costs the prompt cache, which `PrefixBroken` reports after the response."""
        if tools is self._plugin_tools:
            return
        first = self._plugin_tools is None
        self._plugin_tools = tools
        refused = self.permissions.policy.refuses_always
        self._tools = self.own_tools.adding(tool for tool in tools if not refused(tool.name))
        self._use_schemas(first, "a plugin was changed")

    def _use_schemas(self, first: bool, reason: str) -> None:
        """Send the present tools with the next request. `reason`: why that breaks the prompt cache, except for the
        `first` time."""
        schemas = self.registry.schemas()
        if schemas == self.requests.tools:
            return
        self.requests.use_tools(schemas)
        if first:
            self.watch.compare_front(self.requests.build((), 1, "turn"))
        else:
            self.watch.explain(reason)

    # ------------------------------------------------------------------------------------------------------ cache

    def _resume_watch(self) -> None:
        """Let the cache watch know about requests of an earlier process: their prompt cache may still be warm."""
        watch, view, log = self.watch, self.view, self.resumed.log
        watch.keep_fronts(
            lambda: view.user_context(self.log.messages), lambda front: self.store.note_front(front.to_dict())
        )
        replies = [message for message in log if message.usage is not None]
        if not replies or self.resumed.last_front is None:
            return
        idle = seconds_between(self.resumed.last_reply_at, self.clock.timestamp())
        at = self.clock.monotonic() - (idle or 0.0)
        boundary = view.edits.boundary(log)
        compacted = next(m is boundary for m in reversed(log) if m is boundary or m is replies[-1])
        freed = None if compacted else view.count_freed_since(log, replies[-1].id)
        watch.resume(replies, self.resumed.last_front, at, compacted=compacted, freed=freed or 0)
        watch.compare_front(self.requests.build((), 1, "turn"))
        if freed is not None:
            watch.explain(CHANGED_BEFORE)

    # --------------------------------------------------------------------------------------- work beside submissions

    def stage_collapses(self, log: Sequence[Message], estimate: int, signal: AbortSignal) -> None:
        """Start background summaries of old exchanges, if they may be needed soon; returns at once."""
        pinned = find_pinned(log, self.pins) if self.pins else frozenset[str]()
        self.collapser.stage(Staging(self, log, estimate, self.context_limits.usable, pinned), signal)

    async def collect_attachments(self, state: LoopState, signal: AbortSignal) -> Sequence[Message]:
        """The updates for the model before its next request; empty after an abort."""
        if not self.attachments.waits and not signal.aborted:
            # Avoid a task, which costs two iterations of the event loop.
            return await self.attachments.collect(state)
        with suppress(Aborted):
            return await signal.run(self.attachments.collect(state))
        return ()

    async def end_background_work(self) -> None:
        """Cancel the summaries that a submission has begun."""
        try:
            await self.summaries.aclose()
        finally:
            await self.collapser.aclose()

    def detach(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task beside the submissions that nothing waits for; `aclose` cancels it."""
        task = start_task(work)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        return task

    def detach_hook(self, work: Coroutine[Any, Any, None]) -> None:
        """Run hooks beside the submissions; `finish_hooks` waits for them."""
        task = self.detach(work)
        self._detached_hooks.add(task)
        task.add_done_callback(self._detached_hooks.discard)

    async def finish_hooks(self) -> None:
        """Let detached hooks end by themselves or at their timeouts. The user has left an interactive session, so it
        waits no longer than for SessionEnd hooks."""
        if self._detached_hooks:
            await asyncio.wait(self._detached_hooks, timeout=END_SECONDS if self.interactive else None)

    def cancel_hooks(self) -> None:
        """End the detached hooks, for which `Engine.aclose` waits otherwise."""
        for task in self._detached_hooks:
            task.cancel()

    async def aclose(self) -> None:
        self.attachments.close()
        try:
            await self.agents.aclose()
        finally:
            if self.session_hooks is not None:
                await cancel_and_wait([self.session_hooks])
            await cancel_and_wait(list(self._detached))
            await self.live_files.aclose()
            await self.log.aclose()
            await self.hooks.aclose()
