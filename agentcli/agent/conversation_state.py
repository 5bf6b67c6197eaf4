"""The objects of a running conversation, shared by the engine, its submissions and their loops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentcli.agent.background_commands import BackgroundCommands
from agentcli.agent.context.control import ContextControl
from agentcli.agent.conversation_log import ConversationLog
from agentcli.agent.conversation_requests import ConversationRequests, LoadedTools
from agentcli.agent.costs.costs import Costs
from agentcli.agent.costs.spending import Spending
from agentcli.agent.engine_setup import EngineSetup, recall_front, resume_watch
from agentcli.agent.file_changes import FileChanges
from agentcli.agent.live_files import LiveFiles
from agentcli.agent.plugins import Owned
from agentcli.agent.ports import END_SECONDS, Attachments, HookChain, Hooks
from agentcli.agent.profile import ModelSettings, price_of
from agentcli.agent.prompt_queue import PromptQueue
from agentcli.agent.questions import Questions, UserQuestion
from agentcli.agent.shell_line import UserShell
from agentcli.agent.subagents.agents import AgentHost, Agents
from agentcli.agent.subagents.earlier_agents import lost_agents
from agentcli.agent.subagents.specs import TASK
from agentcli.agent.subagents.updates import AgentList, AgentReports
from agentcli.agent.updates.attachments import Composite, UserNotes
from agentcli.agent.wakes import Wakes
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, AbortSignal
from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.messages import Json, Message
from agentcli.tools.base import Tool
from agentcli.tools.planning.todowrite import todos_from
from agentcli.tools.registry import Registry

if TYPE_CHECKING:
    from agentcli.agent.mcp.offer import McpOffer, OfferLimits
    from agentcli.agent.mcp.requests import ServerQuestions
    from agentcli.agent.mcp.updates import ServerNotices
    from agentcli.hooks.runner import HookRunner
    from agentcli.mcp.servers import McpServers


def _offer_for(setup: EngineSetup, loaded: LoadedTools, log: Sequence[Message]) -> McpOffer | None:
    if setup.mcp is None:
        return None
    from agentcli.agent.mcp.offer import McpOffer, OfferLimits

    def refuses(name: str) -> bool:
        return setup.permissions.policy.refuses_always(name)

    return McpOffer(setup.mcp, setup.mcp_limits or OfferLimits(), refuses, loaded, log)


class ConversationState:
    """Everything of a conversation that changes; `setup` is what it was made from."""

    def __init__(self, setup: EngineSetup) -> None:
        estimator = setup.view.estimator
        self.setup = setup
        self.tool_context = setup.tool_context
        """With the working directory of the next command."""
        self._registry = setup.registry
        """With the tools of plugins, without those of MCP servers."""
        self.loaded_tools = LoadedTools(lambda model: setup.catalog.get(model).tool_references)
        self.offer = _offer_for(setup, self.loaded_tools, setup.log)
        """The tools of MCP servers; None: there are no servers."""
        self._plugin_tools: Sequence[Tool] | None = None
        self._plugin_hooks: Sequence[Owned] = ()
        self._plugin_runner: HookRunner | None = None
        """Runs the hooks of plugins; None until there are some."""
        self.hooks: Hooks = HookChain()
        """Replaced by `use_hooks`."""
        self.session_hooks: asyncio.Task[tuple[str, ...]] | None = None
        """The running SessionStart hooks, if they were started before the first prompt."""
        self.session_begun = False
        """Whether the SessionStart hooks were started."""
        self.late_system = setup.late_system
        """Completes the system prompt; None once that is done."""
        self.controller: AbortController | None = None
        """Abort controller of the running submission."""
        self.is_model_working = False
        """Whether the running submission is more than a command of the user's."""
        self.is_answering = False
        """Whether a prompt is answered, with the settings that it began with."""
        self.first_mode = setup.permissions.mode
        self.interactive = setup.interactive
        """Whether a user can answer questions."""
        link = setup.link
        self.questions = link.questions if link is not None else Questions(interactive=setup.interactive)
        self.queue = PromptQueue()
        self.log = ConversationLog(
            setup.log, setup.store, self.queue, setup.notices, setup.earlier_part, setup.recorded_mode
        )
        self.settings = ModelSettings(setup.profile, setup.catalog, setup.bounds, setup.tuning)
        self.requests = ConversationRequests(
            lambda: self.settings.profile, self.registry.schemas(), lambda: estimator.density, self.loaded_tools
        )
        spending = self._new_spending()
        cap = setup.bounds.max_budget_usd
        charged = (link.costs, link.agent) if link is not None else None
        self.costs = Costs(
            setup.catalog, setup.watch, spending, cap, setup.earlier, interactive=self.interactive, charged=charged
        )
        resume_watch(setup, self.log, self.requests)
        self.context = ContextControl(
            setup, self.log, self.settings, self.requests, spending, lambda: self.is_model_working
        )
        self.files = FileChanges(setup.extensions.workspace, lambda: self.tool_context, setup.watched)
        self.agents = self._new_agents()
        shells = setup.tool_context.shells if link is None else None
        self.background = BackgroundCommands(shells, self.log.record_if_begun, self.agents)
        self.wakes = Wakes(
            self.background,
            self.costs,
            lambda: self.settings.limits().max_turns,
            lambda: self.controller is not None,
        )
        self.attachments = Composite(*self._agent_updates(), *self._server_updates(), setup.extensions.attachments)
        """All updates for the model, before a request."""
        self.user_shell = UserShell(setup.tool_context.root)
        self.user_notes = UserNotes(self.log, setup.ids)
        self.denials: list[dict[str, Any]] = []
        self.todos: list[Json] = todos_from(setup.log)
        self._notices = list(setup.notices)
        self.server_notices: ServerNotices | None = None
        """About MCP servers; None: there are none."""
        self.use_hooks(setup.extensions.hooks)
        self.server_questions = self._bind_servers()
        """Questions of MCP servers to the user; None: there are no servers."""
        self.live_files = LiveFiles(self)
        if setup.plugins is not None:
            setup.plugins.is_answering = lambda: self.is_answering
        self._detached: set[asyncio.Task[None]] = set()
        self._detached_hooks: set[asyncio.Task[None]] = set()

    def _new_agents(self) -> Agents:
        setup = self.setup
        return Agents(
            AgentHost(
                setup=setup.agents,
                link=setup.link,
                session_id=setup.store.session_id,
                registry=lambda: self.registry,
                clock=setup.clock,
                profile=lambda: self.settings.profile,
                tool_context=lambda: self.tool_context,
                messages=lambda: self.log.messages,
                view=setup.view,
                questions=self.questions,
                costs=self.costs,
                hooks=lambda: self.hooks,
            )
        )

    def _new_spending(self) -> Spending:
        setup, view = self.setup, self.setup.view
        return Spending(
            price_of(setup.catalog),
            lambda: view.messages(setup.log),
            lambda: view.estimator.density,
            lambda: self.requests.overhead_tokens() + view.tokens_of(self.log.messages),
        )

    def _bind_servers(self) -> ServerQuestions | None:
        """Let MCP servers know this conversation."""
        setup, servers = self.setup, self.setup.mcp
        if servers is None or setup.link is not None:
            return None
        from agentcli.agent.mcp.requests import RequestsHost, SessionRequests
        from agentcli.agent.mcp.sampling import SamplingHost
        from agentcli.agent.mcp.updates import ServerNotices

        self.server_notices = ServerNotices(servers)
        if not isinstance(servers.requests, SessionRequests):
            return None
        return servers.requests.bind(
            RequestsHost(
                folders=lambda: self.tool_context.working_dirs,
                questions=self.questions,
                ids=setup.ids,
                signal=lambda: self.controller.signal if self.controller is not None else None,
                call_for_attention=lambda text: self.hooks.attention_needed("elicitation_dialog", text),
                sampling=SamplingHost(
                    setup.provider,
                    lambda: self.settings.profile,
                    setup.catalog,
                    self.costs.take,
                    lambda: self.costs.is_budget_spent,
                ),
                log=servers.note,
                environ=setup.environ,
            )
        )

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
        setup = self.setup
        return {
            "session_id": setup.store.session_id,
            "transcript_path": str(setup.store.path or ""),
            "cwd": str(self.tool_context.cwd),
            "permission_mode": setup.permissions.mode.value,
        }

    def _agent_updates(self) -> tuple[Attachments, ...]:
        setup = self.setup
        if setup.agents is None or setup.registry.get(TASK) is None:
            return ()
        listed = AgentList(self.agents.defined, setup.ids, setup.view.shown_messages)
        # A sub-agent may have a copy of its parent's log; the parent's agents are not its own.
        lost = lost_agents(setup.log) if setup.link is None else ()
        return (listed, AgentReports(lambda: self.agents.background_runs, setup.ids, lost))

    @property
    def registry(self) -> Registry:
        """All tools that are available now."""
        return self._registry if self.offer is None else self.offer.registry(self._registry)

    def _server_updates(self) -> tuple[Attachments, ...]:
        if self.offer is None:
            return ()
        from agentcli.agent.mcp.updates import McpUpdates

        return (McpUpdates(self.offer, self.use_servers, self.setup.ids, self.setup.view.messages),)

    def add_servers(self, servers: McpServers, limits: OfferLimits) -> None:
        """Give a session without MCP servers its first ones. Their tools are deferred; if a request was sent already,
        the search for them changes the prefix of the next one."""
        self.setup = replace(self.setup, mcp=servers, mcp_limits=limits)
        self.offer = _offer_for(self.setup, self.loaded_tools, self.log.messages)
        self.attachments = Composite(*self._server_updates(), self.attachments)
        self.server_questions = self._bind_servers()

    def use_servers(self) -> None:
        """Decide which tools of MCP servers the next request has. Tools that arrive later are deferred so that the
        prefix stays unchanged, unless the settings turn that off."""
        assert self.offer is not None
        first = self.offer.choose_direct_tools()
        if first and self.offer.direct() and self.setup.link is None:
            self.setup.store.note_server_tools(self.offer.direct_records())
        schemas = self.registry.schemas()
        if schemas == self.requests.tools:
            return
        self.requests.use_tools(schemas)
        if first:
            recall_front(self.setup, self.requests)
        else:
            self.setup.watch.explain("tools of MCP servers were loaded")

    def use_plugins(self) -> None:
        """Use the tools and hooks of plugins as they are now. Called between submissions."""
        setup = self.setup
        if setup.plugins is None:
            return
        self._use_plugin_tools(setup.plugins.active.tools)
        parts = setup.plugins.active.hooks
        if parts != self._plugin_hooks:
            from agentcli.agent.plugins import hook_rules, plugin_runner

            self._plugin_hooks = parts
            is_new = self._plugin_runner is None
            self._plugin_runner = self._plugin_runner or plugin_runner(self.tool_context.root, setup.ids, setup.clock)
            self._plugin_runner.rules = hook_rules(parts, setup.plugins.collection.loading.log)
            if is_new:
                self.use_hooks(self._configured_hooks)

    def _use_plugin_tools(self, tools: Sequence[Tool]) -> None:
        """Offer the tools of plugins from the next request on. If only their code changed, requests stay the same; a
        changed, new or removed tool costs the prompt cache, which `PrefixBroken` reports after the response."""
        if tools is self._plugin_tools:
            return
        setup, first = self.setup, self._plugin_tools is None
        self._plugin_tools = tools
        refused = setup.permissions.policy.refuses_always
        self._registry = setup.registry.adding(tool for tool in tools if not refused(tool.name))
        if self.registry.schemas() == self.requests.tools:
            return
        self.requests.use_tools(self.registry.schemas())
        if first:
            recall_front(setup, self.requests)
        else:
            setup.watch.explain("a plugin was changed")

    def add_notices(self, notices: Iterable[ev.NoticeRaised]) -> None:
        self._notices += notices

    def take_notices(self) -> list[ev.NoticeRaised]:
        """Notices of the start and of reloaded settings, for the first caller: a front end or a submission."""
        notices, self._notices = self._notices, []
        return notices

    def question(
        self, title: str, reason: str, display: Json, input: Json | None = None, signal: AbortSignal | None = None
    ) -> UserQuestion | None:
        """A question of agentcli itself, like a permission request; None: non-interactive. `signal` withdraws it."""
        if not self.interactive:
            return None
        question = ev.PermissionRequested(
            request_id=self.setup.ids.new(),
            tool_use_id="",
            name="agentcli",
            input=input or {},
            title=title,
            reason=reason,
            display=display,
        )
        return UserQuestion(question, self.questions, signal or self.command_signal)

    @property
    def command_signal(self) -> AbortSignal | None:
        """Signal that stops the user's own command; None for one that runs beside the model's work, which is not
        stopped with it."""
        return None if self.controller is None or self.is_model_working else self.controller.signal

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

    def begin_session(self) -> None:
        """Start the SessionStart hooks, if there are hooks. The first prompt waits for them."""
        if not self.session_begun and self.hooks.configured:
            self.session_begun = True
            work = self.hooks.before_session(self.setup.session_source)
            self.session_hooks = start_task(work)

    async def aclose(self) -> None:
        try:
            await self.agents.aclose()
        finally:
            if self.session_hooks is not None:
                await cancel_and_wait([self.session_hooks])
            await cancel_and_wait(list(self._detached))
            await self.live_files.aclose()
            await self.log.aclose()
            await self.hooks.aclose()
