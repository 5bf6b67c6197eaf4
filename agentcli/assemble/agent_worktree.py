"""A git worktree for a sub-agent: its folders, its sandbox, and the session's permissions in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from agentcli.agent.live_permissions import LivePermissions
from agentcli.assemble.environment import Environment
from agentcli.assemble.rights import RightsBuilder
from agentcli.assemble.sessions import SessionBuilder
from agentcli.assemble.worktrees import ProjectWorktrees
from agentcli.core.permission import Decision, PermissionMode, SaveTo
from agentcli.permissions.policy import Policy

_git = Lock()
"""Agents open and close worktrees at the same time, and git refuses to add two at once."""


class AgentPlace:
    """An open worktree. Blocking; raises `AgentError`."""

    def __init__(self, session: Environment, permissions: LivePermissions, results_dir: Path | None) -> None:
        self._project = ProjectWorktrees(session)
        with _git:
            self._worktree = self._project.open()
        try:
            self.env = Environment(replace(session.options, cwd=self._worktree.inside(session.cwd)))
            self.sessions = SessionBuilder(self.env)
            rights = RightsBuilder(self.env).build(results_dir)
        except BaseException:
            self._project.close(self._worktree)
            raise
        self.context = rights.context
        self.permissions = PlacePermissions(permissions, rights.policy)

    @property
    def path(self) -> Path:
        return self._worktree.path

    @property
    def branch(self) -> str:
        return self._worktree.branch

    def close(self) -> bool:
        """Remove it if nothing in it has changed; returns whether it was kept."""
        self.context.launcher.close()
        with _git:
            return self._project.close(self._worktree)


class PlacePermissions(LivePermissions):
    """The session's permissions, for work in another folder: mode and rules are shared, folders and sandbox are the
    place's. What a user answers holds for the session."""

    def __init__(self, session: LivePermissions, place: Policy) -> None:
        self._of_session = session
        self._place = place

    @property
    def policy(self) -> Policy:  # type: ignore[override]
        shared, place = self._of_session.policy, self._place
        return replace(
            place,
            mode=shared.mode,
            allow=(*shared.allow, *place.allow),
            ask=(*shared.ask, *place.ask),
            deny=(*shared.deny, *place.deny),
            # The running sandbox does not hide what a new rule denies.
            hidden_from_commands=place.hidden_from_commands
            if {rule.text for rule in shared.deny} <= {rule.text for rule in place.deny}
            else Policy().hidden_from_commands,
        )

    def set_mode(self, mode: PermissionMode) -> None:
        self._of_session.set_mode(mode)

    def leave_plan(self) -> PermissionMode:
        return self._of_session.leave_plan()

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        return self._of_session.learn(rules, save_to)

    def lend(self, texts: Sequence[str], source: str) -> list[str]:
        return self._of_session.lend(texts, source)

    def refresh(self) -> bool:
        return self._of_session.refresh()

    def take_notice(self) -> str | None:
        return self._of_session.take_notice()

    def _counted(self, decision: Decision) -> Decision:
        return self._of_session._counted(decision)
