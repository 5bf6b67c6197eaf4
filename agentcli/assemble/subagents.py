"""Build the engines of sub-agents, which share most of their parts with the session; `--agents` and `--agent`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from agentcli import __version__
from agentcli.agent.engine import Engine
from agentcli.agent.ports import Attachments
from agentcli.agent.profile import Bounds, ModelSettings, Profile
from agentcli.agent.session import Resumed, Session
from agentcli.agent.subagents.specs import (
    BUILTIN,
    MAX_AGENTS,
    SMALL_MODEL,
    AgentOrder,
    AgentSetup,
    AgentSpec,
    AgentWorktree,
    spec_of,
    tools_of,
)
from agentcli.assemble.context_pipeline import collapser_for, pipeline_for
from agentcli.assemble.definitions import definitions_for
from agentcli.assemble.environment import Environment
from agentcli.assemble.options import Options
from agentcli.assemble.sessions import AttachmentsBuilder, OpenedSession, SessionBuilder
from agentcli.context.prompt import system_parts
from agentcli.core.errors import UsageError
from agentcli.core.events import MessageAppended
from agentcli.core.files.access import parse_json
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.library import Library
from agentcli.session.base import SessionContext, Store
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.registry import Registry, builtin_tools
from agentcli.tools.skill import NAME as SKILL
from agentcli.workspace.base import Workspace

if TYPE_CHECKING:
    from agentcli.agent.mcp.server_tools import ServerToolLimits
    from agentcli.assemble.agent_worktree import AgentPlace
    from agentcli.assemble.project_copy import ProjectCopy
    from agentcli.core.processes.launch import Launcher

_IN_WORKTREE = (
    "You work in a git worktree of your own, made from the last commit: uncommitted changes of the project are not in "
    "it. Change files only there. A path in the task that is in another copy of the project means the same file in "
    "your working directory. Commit your changes at the end: the agent that gave you the task is told your branch and "
    "may be unable to read your working directory. If you cannot commit, report the changes in full."
)


class SubagentBuilder:
    def __init__(self, env: Environment, sessions: SessionBuilder, definitions: Library) -> None:
        self._env = env
        self._sessions = sessions
        self._definitions = definitions
        self._from_flag = agents_from_flag(env.options.agents)
        self._places: WeakValueDictionary[Launcher, AgentPlace | ProjectCopy] = WeakValueDictionary()
        """Places of agents by their launchers."""

    def setup(self) -> AgentSetup:
        most = self._env.settings.integer("maxAgents") or MAX_AGENTS
        return AgentSetup(self.build, self.defined, most, self._open_worktree)

    def defined(self) -> Mapping[str, AgentSpec]:
        """Agents besides the built-in ones."""
        return {name: spec_of(file) for name, file in self._definitions.agents.items()} | dict(self._from_flag)

    def build(self, starter: Session, order: AgentOrder) -> Engine:
        from agentcli.agent.subagents.shared import AgentHooks, AgentPermissions, AgentWorkspace
        from agentcli.assemble.agent_worktree import AgentPlace

        main, spec = starter.main, order.spec
        context, permissions = starter.tool_context, main.permissions
        workspace: Workspace = AgentWorkspace(main.workspace)
        env, sessions = self._env, self._sessions
        if (place := self._place(starter, order)) is not None:
            permissions, shells = place.permissions, None
            if isinstance(place, AgentPlace):
                env, sessions, shells = place.env, place.sessions, context.shells
            context = replace(place.context, shells=shells, reaches=permissions.reaches)
            workspace = Workspace("Changes in a worktree are undone with git.")
        permissions = AgentPermissions(permissions)
        opened = self._open(starter, order)
        # A copy of the conversation already contains the attachments.
        builder = None if spec.shares_context else AttachmentsBuilder(env, opened, context.hides, memory=False)
        collapser = collapser_for(env.settings, opened.view)
        tools, server_limits = self._tools(starter, order)
        skills = self._definitions if tools.get(SKILL) is not None else None
        bounds = Bounds(max_turns=spec.max_turns or main.settings.bounds.max_turns)
        profile = self._profile(starter, order, sessions)
        session = starter.child(
            order.id,
            own_tools=tools,
            store=opened.store,
            permissions=permissions,
            settings=ModelSettings(profile, main.catalog, bounds, main.settings.tuning),
            tool_context=replace(context, read_cache=ReadCache()),
            hooks=AgentHooks([main.hooks], order.id, spec.name),
            collapser=collapser,
            attachments=Attachments() if builder is None else builder.agent_attachments(permissions, skills),
            workspace=workspace,
            view=opened.view,
            resumed=Resumed(log=tuple(opened.log)),
            pipeline=pipeline_for(env.settings, context.results_dir, collapser),
            instruction_notices=[] if builder is None else builder.news,
            instruction_files=None if builder is None else builder.files,
            mcp=main.mcp if server_limits is not None else None,
            mcp_limits=server_limits,
        )
        return Engine(session)

    @staticmethod
    def _tools(starter: Session, order: AgentOrder) -> tuple[Registry, ServerToolLimits | None]:
        """The tools of an agent, and the limits on its MCP tools; None without servers."""
        spec, registry, depth, limits = order.spec, starter.registry, starter.depth + 1, starter.main.mcp_limits
        if starter.main.mcp is None:
            return tools_of(spec, registry, depth), None
        from agentcli.agent.mcp.server_tools import ServerToolSettings, agent_limits, is_of_servers

        settings = ServerToolSettings() if limits is None else limits.settings
        others = registry.without(tool.name for tool in registry if is_of_servers(tool))
        return tools_of(spec, others, depth), agent_limits(spec, registry, settings)

    def _open_worktree(self, session: Session) -> AgentWorktree:
        from agentcli.assemble.agent_worktree import AgentPlace

        return AgentPlace(self._env, session.permissions, session.tool_context.results_dir)

    def _place(self, starter: Session, order: AgentOrder) -> AgentPlace | ProjectCopy | None:
        """The worktree or copy of an agent, which its own sub-agents share."""
        from agentcli.assemble.agent_worktree import AgentPlace
        from agentcli.assemble.project_copy import ProjectCopy

        if isinstance(order.worktree, AgentPlace | ProjectCopy):
            self._places[order.worktree.context.launcher] = order.worktree
            return order.worktree
        return self._places.get(starter.tool_context.launcher)

    def _open(self, starter: Session, order: AgentOrder) -> OpenedSession:
        if order.log is not None:
            return OpenedSession(Store(starter.ids.new()), log=order.log, view=starter.view.copy())
        opened = OpenedSession(self._store(starter, order))
        if not order.spec.shares_context:
            return opened
        messages = tuple(starter.log.messages)
        if messages and messages[-1].tool_uses:
            messages = messages[:-1]  # The calls of this reply have no results yet.
        for message in messages:
            opened.store.record(MessageAppended(message=message))
        return replace(opened, log=messages, view=starter.view.copy())

    def _store(self, starter: Session, order: AgentOrder) -> Store:
        """The agent's own session file, hidden from lists; saved if the parent's is."""
        env, ids = self._env, starter.ids
        new_id, state_dir = ids.new(), env.paths.state_dir
        if starter.main.store.path is None or state_dir is None:
            return Store(new_id)
        from agentcli.session.store import SessionStore

        place = SessionContext(state_dir, env.cwd, starter.clock, ids, __version__)
        store = SessionStore.create(place, new_id, starter.store.session_id)
        store.set_title(f"{order.id}: {order.description}")
        return store

    def _profile(self, starter: Session, order: AgentOrder, sessions: SessionBuilder) -> Profile:
        profile, catalog = starter.profile, starter.catalog
        if order.log is not None:
            return replace(profile, model=order.model, effort=order.effort, raw_events=False)
        wanted = order.model or order.spec.model
        model = profile.model
        if wanted == SMALL_MODEL:
            model = profile.small_model
        elif wanted and wanted != "inherit":
            model = catalog.resolve(wanted)
        if order.spec.shares_context:
            return replace(profile, model=model, raw_events=False)
        own = order.spec.system if sessions is self._sessions else f"{order.spec.system}\n\n{_IN_WORKTREE}"
        system = system_parts(own, None, sessions.context(memory=False))
        return replace(profile, model=model, system=system, task_budget=None, raw_events=False)


_EXAMPLE = '--agents \'{"reviewer": {"description": "Reviews changes", "prompt": "You review."}}\''
_TEXTS = ("description", "prompt", "model")
_LISTS = ("tools", "disallowedTools")


def agents_from_flag(text: str | None) -> Mapping[str, AgentSpec]:
    """The agents of `--agents`. Raises `UsageError`."""
    if text is None:
        return {}
    try:
        entries = parse_json(text)
    except ValueError as error:
        raise UsageError(f"--agents is not JSON: {error}. Example: {_EXAMPLE}") from None
    if not isinstance(entries, dict):
        raise UsageError(f"--agents needs an object with one entry per agent. Example: {_EXAMPLE}")
    return {name.lower(): _spec(name.lower(), entry) for name, entry in entries.items()}


def _spec(name: str, entry: object) -> AgentSpec:
    """Check one entry of `--agents`. Raises `UsageError`."""
    where = f"--agents: {plain_line(name, 80)}"
    if not isinstance(entry, dict):
        raise UsageError(f"{where} needs an object with description and prompt. Example: {_EXAMPLE}")
    for key in _TEXTS:
        if not isinstance(entry.get(key, ""), str) or (key != "model" and not entry.get(key, "").strip()):
            raise UsageError(f"{where}: {key} must be a text{'' if key == 'model' else ' and is needed'}.")
    for key in _LISTS:
        names = entry.get(key, [])
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise UsageError(f"{where}: {key} must be a list of tool names.")
    turns = entry.get("maxTurns")
    if turns is not None and (not isinstance(turns, int) or turns < 1):
        raise UsageError(f"{where}: maxTurns must be a number of at least 1.")
    return AgentSpec(
        name=name,
        description=plain_line(entry["description"], 1_024),
        prompt=entry["prompt"].strip(),
        tools=tuple(entry["tools"]) if entry.get("tools") else None,
        disallowed_tools=tuple(entry.get("disallowedTools", ())),
        model=entry.get("model", ""),
        max_turns=turns,
        background=entry.get("background") is True,
        source="--agents",
    )


def as_agent(options: Options) -> Options:
    """Options with the prompt, tools, model and turn limit of the agent that `--agent` names, except where another
    flag sets them. Raises `UsageError`."""
    if options.agent is None:
        return options
    library = definitions_for(Environment(options))
    library.refresh()
    known = {**BUILTIN, **{name: spec_of(file) for name, file in library.agents.items()}}
    known |= agents_from_flag(options.agents)
    known = {name: spec for name, spec in known.items() if not spec.shares_context}
    spec = known.get(options.agent.strip().lower())
    if spec is None:
        raise UsageError(
            f"There is no agent called {plain_line(options.agent, 80)!r}. There are: {', '.join(sorted(known))}."
        )
    model = spec.model if spec.model not in ("", "inherit", "small") else None
    return replace(
        options,
        agent=None,
        system_prompt=options.system_prompt if options.system_prompt is not None else spec.prompt,
        tools=options.tools if options.tools is not None else _builtin_tools(spec),
        mcp_tools=options.mcp_tools if options.mcp_tools is not None else _mcp_tools(spec),
        disallowed_tools=(*options.disallowed_tools, *spec.disallowed_tools),
        model=options.model or model,
        max_turns=options.max_turns or spec.max_turns,
    )


def _mcp_tools(spec: AgentSpec) -> tuple[str, ...] | None:
    """Names and patterns of the MCP tools that an agent may have; None: all."""
    return None if spec.tool_names is None else tuple(name for name in spec.tool_names if name.startswith("mcp__"))


def _builtin_tools(spec: AgentSpec) -> tuple[str, ...] | None:
    """Names of the built-in tools that an agent may have; None: all."""
    if spec.tool_names is None:
        return None
    registry = Registry(builtin_tools())
    found = (registry.get(name.partition("(")[0].strip()) for name in spec.tool_names)
    # A read-only agent gets no Bash: a command can change anything.
    return tuple(tool.name for tool in found if tool is not None and not (spec.read_only and tool.name == "Bash"))
