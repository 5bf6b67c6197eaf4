"""Composition root: `Options` in, a working `Engine` out. The only package that knows every implementation.

options        the options of a caller               environment       folders, settings, variables, trust
rights         tools, rules and sandbox              model             model, limits, provider
sessions       session file, history, system prompt, output style, instruction files and reminders
context_pipeline  steps that free context
definitions    commands, skills, agents from files   hooks             hooks, as trust allows
plugins        Python plugins, as trust allows       mcp               MCP servers and their tools
reload         changed files of an open session
subagents      the engines of sub-agents
worktrees      git worktrees of a project            agent_worktree    the worktree of a sub-agent
login          keys and addresses
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.agent.attachments.state_notes import resume_shells
from agentcli.agent.costs.costs import totals_from
from agentcli.agent.engine import Engine
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.profile import ModelSettings
from agentcli.agent.session import Resumed, Session
from agentcli.assemble.context_pipeline import collapser_for, pipeline_for
from agentcli.assemble.definitions import SessionSkills, definitions_for
from agentcli.assemble.environment import Environment, settings_to_record
from agentcli.assemble.mcp import server_tool_limits, servers_for
from agentcli.assemble.model import ModelBuilder
from agentcli.assemble.options import Options
from agentcli.assemble.plugins import plugins_for
from agentcli.assemble.reload import SessionConfiguration
from agentcli.assemble.rights import Rights, RightsBuilder
from agentcli.assemble.sessions import AttachmentsBuilder, OpenedSession, SessionBuilder, skill_listing
from agentcli.assemble.subagents import SubagentBuilder, as_agent
from agentcli.config.settings import Settings
from agentcli.core import events as ev
from agentcli.core.events import NoticeRaised
from agentcli.core.frozen import frozen
from agentcli.core.permission import PermissionMode, mode_label
from agentcli.core.processes.launch import Launcher
from agentcli.core.text.format import plural
from agentcli.core.text.plaintext import plain_line
from agentcli.permissions.policy import Policy

__all__ = ["Options", "Rights", "build_engine", "rights_for", "sandbox_for", "settings_for"]


def build_engine(options: Options) -> Engine:
    """Read settings, find credentials, open or resume the session, and return the engine.

    Raises `AgentError` (`UsageError`, `CredentialError`) with a message that names the fix. Uses no network. Starts
    only git, for a new session in a trusted repository, and the sandbox test, once after each boot.
    """
    env = Environment(as_agent(options))
    sessions = SessionBuilder(env)
    session = sessions.open()
    try:
        return _engine(env, sessions, session)
    except BaseException:
        session.store.close()
        raise


def _engine(env: Environment, sessions: SessionBuilder, session: OpenedSession) -> Engine:
    options, parts = env.options, RightsBuilder(env)
    results_dir = session.store.results_dir()
    definitions = definitions_for(env)
    skill_tool = SessionSkills(definitions, session.log, session.front)
    rights = parts.build(results_dir, tuple(session.results_elsewhere), skill_tool)
    plugins = plugins_for(env, rights.registry.names, parts.check_plugin_tools)
    models = ModelBuilder(env, plugins)
    profile = models.profile(session.last_model, session.choice or session.front)
    bounds = models.bounds(profile)
    provider, key_source = models.provider()
    earlier = earlier_rights(session.shown_rights)
    plans = earlier.mode == PermissionMode.PLAN.value
    configuration = SessionConfiguration(env, definitions, rights.registry)
    permissions = _permissions(env, session, parts, rights, configuration, earlier)
    shells = resume_shells(session.log, session.background)
    style = sessions.style(session, definitions)
    system = sessions.system(session, style)
    builder = AttachmentsBuilder(env, session, rights.context.hides)
    skills = skill_listing(env, session, definitions, permissions, rights.registry)
    collapser = collapser_for(env.settings, session.view)
    tool_context = replace(rights.context, cwd=_shell_folder(session, env), reaches=permissions.reaches, shells=shells)
    builder.recall(tool_context)
    servers = servers_for(env)
    resumed = Resumed(
        log=tuple(session.log),
        history=session.history,
        earlier_part=session.earlier,
        mode=(earlier.mode or _default_mode(env), earlier.returns_to if plans else ""),
        last_reply_at=session.last_reply_at,
        last_front=session.front,
        totals=totals_from(session.spent),
    )
    return Engine(
        Session(
            provider=provider,
            own_tools=rights.registry,
            store=session.store,
            permissions=permissions,
            settings=ModelSettings(replace(profile, system=system), env.catalog, bounds, models.tuning()),
            tool_context=tool_context,
            ids=options.ids,
            clock=options.clock,
            interactive=options.interactive,
            hooks=configuration.hooks,
            collapser=collapser,
            attachments=builder.attachments(permissions, shells, system, skills),
            workspace=sessions.workspace(session),
            view=session.view,
            pins=set(session.pinned),
            resumed=resumed,
            recorded_settings=settings_to_record(env),
            source="resume" if session.log else "clear" if options.after_clear else "startup",
            api_key_source=key_source,
            notices=tuple(env.notices),
            auto_mode_offer=auto_mode_offer(env, rights.context.launcher),
            wants_structured=options.json_schema is not None,
            environ=env.environ,
            instruction_notices=builder.news,
            notes=builder.notes,
            instruction_files=builder.files,
            definitions=definitions,
            output_style=style.name if style is not None else "",
            watches_definitions=options.interactive and env.settings.boolean("watchFiles"),
            configuration=configuration,
            agent_setup=SubagentBuilder(env, sessions, definitions).setup(),
            plugins=plugins,
            mcp=servers,
            mcp_limits=server_tool_limits(env, session.server_tools) if servers is not None else None,
            late_system=sessions.late_system(session, style),
            watched=builder.changed if options.interactive and env.settings.boolean("watchFiles") else None,
            pipeline=pipeline_for(env.settings, results_dir, collapser, plugins),
        )
    )


def _permissions(
    env: Environment,
    session: OpenedSession,
    parts: RightsBuilder,
    rights: Rights,
    configuration: SessionConfiguration,
    earlier: EarlierRights,
) -> LivePermissions:
    """The session's permissions, with the mode of a resumed session."""
    mode, before_plan = rights.policy.mode, parts.mode_before_plan(rights.context.launcher)
    # Without a flag a session continues in its last mode. A non-interactive run has only the rights of its flags.
    if env.options.interactive and session.log:
        is_elsewhere = session.began_in != str(env.cwd)
        if env.options.permission_mode is None:
            mode = restore_mode(earlier.mode, mode, rights, is_elsewhere=is_elsewhere)
        before_plan = restore_mode(earlier.returns_to, before_plan, rights, is_elsewhere=is_elsewhere)
    policy = rights.policy.with_mode(mode)
    permissions = LivePermissions(policy, parts.rule_keeper(), reread=configuration.policy, before_plan=before_plan)
    is_restored = mode is not rights.policy.mode
    lost = _lost_rules(earlier.rules, policy)
    if env.options.interactive and (text := describe_resumed_rights(earlier.mode, lost, mode, is_restored=is_restored)):
        env.notices.append(NoticeRaised(text=text, level="info", code="resumed_rights"))
    return permissions


def _default_mode(env: Environment) -> str:
    """The mode of a session whose file has none: default, or "" if the settings would resume it in another mode."""
    mode = PermissionMode.DEFAULT.value
    return mode if env.settings.text("permissions.defaultMode") in ("", mode) else ""


def _shell_folder(session: OpenedSession, env: Environment) -> Path:
    """Last directory of Bash, or the project's root if that directory is now outside the working directories."""
    last = Path(session.directory) if session.directory else env.cwd
    return last if any(last.is_relative_to(folder) for folder in env.working_dirs) else env.cwd


def settings_for(options: Options) -> Settings:
    """The settings that an engine with these options would use; for `agentcli config`."""
    return Environment(options).settings


def rights_for(options: Options) -> Rights:
    """The tools and rules that an engine with these options would use; for `agentcli permissions`."""
    return RightsBuilder(Environment(options)).build()


def sandbox_for(options: Options) -> tuple[Launcher, str]:
    """The launcher that an engine with these options would use, and its problems; for `agentcli doctor`. Raises
    `UsageError` as `build_engine` does."""
    rights = RightsBuilder(Environment(options)).build()
    return rights.context.launcher, " ".join(rights.sandbox_problems)


_RESTORED = frozenset(mode.value for mode in PermissionMode if mode is not PermissionMode.BYPASS)
_RESTORED_ANYWHERE = _RESTORED - {PermissionMode.ACCEPT_EDITS.value, PermissionMode.AUTO.value}
_MAX_NAMED_RULES = 3
MARKER = "auto-mode-offered"
OFFER = (
    "Auto mode is available: project edits and sandboxed commands run without approval. Network access, paths outside "
    "the project and loss of git history still need approval. Switch with Shift+Tab or /mode auto."
)


def auto_mode_offer(env: Environment, launcher: Launcher) -> Callable[[], str]:
    """A function that returns the notice about auto mode once per user, afterwards ""."""
    options, folder = env.options, env.paths.state_dir
    chosen = options.permission_mode is not None or bool(env.settings.each("permissions.defaultMode"))
    if not (options.offer_auto_mode and options.interactive) or chosen or launcher.uncontained or folder is None:
        return lambda: ""
    return lambda: OFFER if _first_time(folder / MARKER) else ""


def _first_time(marker: Path) -> bool:
    """Whether this call created the marker. If it cannot be created, the notice is never shown."""
    with contextlib.suppress(OSError):
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        return True
    return False


@frozen
class EarlierRights:
    """The rights that a session file records."""

    mode: str
    """The last permission mode; "": none is recorded."""
    returns_to: str
    """The mode that an approved plan returns to; "": not known."""
    rules: tuple[str, ...]
    """Rules that were added for the session only."""


def earlier_rights(history: Iterable[ev.Event]) -> EarlierRights:
    mode, returns_to, rules = "", "", dict[str, None]()
    for event in history:
        if isinstance(event, ev.ModeChanged):
            if event.mode != PermissionMode.PLAN.value:
                returns_to = event.mode
            elif event.returns_to:
                returns_to = event.returns_to
            mode = event.mode
        elif isinstance(event, ev.RulesLearned) and event.where == "session":
            rules.update(dict.fromkeys(event.rules))
    return EarlierRights(mode, returns_to, tuple(rules))


def _lost_rules(rules: Sequence[str], policy: Policy) -> list[str]:
    """The rules of the earlier session that no rule of a file or flag replaces."""
    if not rules:
        return []
    from agentcli.permissions.rules import allows_what, show_rule

    return [show_rule(rule) for rule in rules if not allows_what(rule, policy.allow)]


def restore_mode(
    earlier: str, otherwise: PermissionMode, rights: Rights, *, is_elsewhere: bool = False
) -> PermissionMode:
    """The mode in which a resumed session continues: the earlier one, except bypass, which only a flag or a setting can
    turn on, and auto if the sandbox does not work. `is_elsewhere`: the session was started in another folder, so modes
    that allow edits without approval are not restored."""
    if earlier not in (_RESTORED_ANYWHERE if is_elsewhere else _RESTORED):
        return otherwise
    if earlier == PermissionMode.AUTO.value and rights.context.launcher.uncontained:
        return otherwise
    return PermissionMode(earlier)


def describe_resumed_rights(earlier: str, rules: Sequence[str], mode: PermissionMode, *, is_restored: bool) -> str:
    """Notice about the earlier rights that are restored and those that are not; "" if nothing changed."""
    parts = [f"Permission mode {mode.label} is restored from the earlier session."] if is_restored else []
    lost = [f"mode {mode_label(earlier)}"] if earlier not in ("", mode.value) else []
    lost += [f"{plural(len(rules), 'session rule')} {_name_rules(rules)}"] if rules else []
    if lost:
        now = "" if is_restored else f" The mode is now {mode.label}."
        parts.append(f"Not restored from the earlier session: {' and '.join(lost)}.{now}")
    return " ".join(parts)


def _name_rules(rules: Sequence[str]) -> str:
    more = len(rules) - _MAX_NAMED_RULES
    named = ", ".join(plain_line(rule, 60) for rule in rules[:_MAX_NAMED_RULES])
    return f"{named} and {more} more" if more > 0 else named
