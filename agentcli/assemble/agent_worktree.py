"""A git worktree for a sub-agent: its folders, its sandbox, and the session's permissions in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.subagents.shared import AgentPermissions
from agentcli.assemble.environment import Environment
from agentcli.assemble.rights import RightsBuilder
from agentcli.assemble.sessions import SessionBuilder
from agentcli.assemble.worktrees import ProjectWorktrees, moved_rule
from agentcli.permissions.late_policy import LatePolicy
from agentcli.permissions.rules.rule import Rule

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
            moved = partial(moved_rule, worktree=self._worktree, home=session.home)
            # The user's local settings are not in the worktree, and its files have other names there.
            rights = RightsBuilder(self.env, deny=map(moved, permissions.policy.deny)).build(results_dir)
        except BaseException:
            self._project.close(self._worktree)
            raise
        self.context = rights.context
        self.permissions = PlacePermissions(permissions, rights.policy, moved)

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


class PlacePermissions(AgentPermissions):
    """For work in another folder: folders and sandbox are the place's. A rule about a file of the project applies to
    the copy of that file, too."""

    def __init__(self, session: LivePermissions, place: LatePolicy, moved: Callable[[Rule], Rule]) -> None:
        super().__init__(session)
        self._place = place
        self._moved = moved

    @property
    def policy(self) -> LatePolicy:  # type: ignore[override]
        shared, place = self._of_session.policy, self._place
        deny = tuple(dict.fromkeys((*shared.deny, *map(self._moved, shared.deny), *place.deny)))
        return replace(
            place,
            mode=shared.mode,
            allow=(*shared.allow, *place.allow),
            ask=tuple(dict.fromkeys((*shared.ask, *map(self._moved, shared.ask), *place.ask))),
            deny=deny,
            # The running sandbox does not hide what a new rule denies.
            hidden_from_commands=place.hidden_from_commands
            if {self._moved(rule) for rule in shared.deny} <= set(place.deny)
            else LatePolicy().hidden_from_commands,
        )
