"""Composition root: `Options` in, a working `Engine` out. The only package that knows every implementation.

ground    where we are and which settings hold      rights    tools, rules, sandbox
sessions  the conversation's past and its file      model     who answers, and the way to it
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentcli.agent.costs.account import totals_from
from agentcli.agent.engine import Engine
from agentcli.agent.engine_setup import EngineSetup
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.loop.structured_output import RequireOutput
from agentcli.agent.ports import Collapser, Extensions
from agentcli.agent.updates.earlier_commands import resumed_shells
from agentcli.assemble.auto_mode_offer import auto_mode_offer
from agentcli.assemble.earlier_rights import earlier_rights_notice
from agentcli.assemble.ground import Ground
from agentcli.assemble.model import ModelParts
from agentcli.assemble.options import Options
from agentcli.assemble.preparing import collapser_for, pipeline_for
from agentcli.assemble.rights import STRUCTURED_OUTPUT, Rights, RightsParts
from agentcli.assemble.sessions import OpenedSession, SessionParts
from agentcli.assemble.telling import Telling
from agentcli.config.settings import Settings
from agentcli.core.events import NoticeRaised
from agentcli.core.launch import Launcher
from agentcli.permissions.policy import Policy
from agentcli.workspace.base import Workspace

__all__ = ["Options", "Rights", "build_engine", "rights_for", "sandbox_for", "settings_for"]


def build_engine(options: Options) -> Engine:
    """Read settings, find credentials, open or resume the session, put the engine together.

    Raises `AgentError` (`UsageError`, `CredentialError`) with a sentence that says what to do. No network, and no
    process but git for a new session in a trusted repository, and the trial of the sandbox, once after each boot.
    """
    ground = Ground(options)
    sessions = SessionParts(ground)
    session = sessions.opened()
    try:
        return _engine(ground, sessions, session)
    except BaseException:
        session.store.close()
        raise


def _engine(ground: Ground, sessions: SessionParts, session: OpenedSession) -> Engine:
    options, models, parts = ground.options, ModelParts(ground), RightsParts(ground)
    profile = models.profile(session.last_model)
    bounds = models.bounds(profile)
    provider, key_source = models.provider()
    results_dir = session.store.results_dir()
    rights = parts.assembled(results_dir, tuple(session.results_elsewhere))

    def reread() -> Policy:
        return RightsParts(Ground(replace(options, cwd=ground.cwd))).policy(rights.registry)

    permissions = LivePermissions(rights.policy, parts.rule_keeper(), reread=reread)
    if options.interactive and (lost := earlier_rights_notice(session.history, permissions.mode)):
        ground.notices.append(NoticeRaised(text=lost, level="info", code="resumed_rights"))
    shells = resumed_shells(session.log, session.background)
    system = sessions.system(session)
    telling = Telling(ground, session, rights.context.hides)
    extensions = _extensions(ground, sessions, session)
    extensions = replace(
        extensions, attachments=telling.attachments(permissions, shells, system, extensions.attachments)
    )
    cwd = _shell_folder(session, ground)
    tool_context = replace(rights.context, cwd=cwd, reaches=permissions.reaches, shells=shells)
    telling.recall(tool_context)
    return Engine(
        EngineSetup(
            provider=provider,
            registry=rights.registry,
            store=session.store,
            permissions=permissions,
            profile=replace(profile, system=system),
            tool_context=tool_context,
            catalog=ground.catalog,
            ids=options.ids,
            clock=options.clock,
            interactive=options.interactive,
            bounds=bounds,
            tuning=models.tuning(),
            extensions=extensions,
            view=session.view,
            log=tuple(session.log),
            history=session.history,
            last_reply_at=session.last_reply_at,
            last_front=session.front,
            earlier=totals_from(session.spent),
            pins=set(session.pinned),
            api_key_source=key_source,
            notices=tuple(ground.notices),
            offer=auto_mode_offer(ground, rights.context.launcher),
            wants_structured=options.json_schema is not None,
            environ=ground.environ,
            instruction_notices=telling.news,
            notes=telling.notes,
            instruction_files=telling.files,
            late_system=sessions.late_system(session),
            watched=telling.changed if options.interactive and ground.settings.boolean("watchFiles") else None,
            pipeline=pipeline_for(ground.settings, results_dir, extensions.collapser),
        )
    )


def _shell_folder(session: OpenedSession, ground: Ground) -> Path:
    """Where Bash goes on; where that is not one of the working directories now, at the root."""
    last = Path(session.directory) if session.directory else ground.cwd
    return last if any(last.is_relative_to(folder) for folder in ground.working_dirs) else ground.cwd


def _extensions(ground: Ground, sessions: SessionParts, session: OpenedSession) -> Extensions:
    """The caller's own extensions, with ours put around them."""
    options, extensions = ground.options, ground.options.extensions
    if options.json_schema is not None:
        extensions = replace(extensions, hooks=RequireOutput(extensions.hooks, STRUCTURED_OUTPUT))
    if type(extensions.workspace) is Workspace:
        extensions = replace(extensions, workspace=sessions.workspace(session))
    if type(extensions.collapser) is Collapser:
        extensions = replace(extensions, collapser=collapser_for(ground.settings, session.view))
    return extensions


def settings_for(options: Options) -> Settings:
    """The settings that an engine with these options would use; for `agentcli config`."""
    return Ground(options).settings


def rights_for(options: Options) -> Rights:
    """The rules that an engine with these options would go by; for `agentcli permissions`."""
    return RightsParts(Ground(options)).assembled()


def sandbox_for(options: Options) -> tuple[Launcher, str]:
    """How commands of an engine with these options would be started, and what there is to say about it; for `agentcli
    doctor`. Raises `UsageError` as `build_engine` does."""
    ground = Ground(options)
    rights = RightsParts(ground).assembled()
    return rights.context.launcher, " ".join(notice.text for notice in ground.notices if notice.code == "sandbox")
