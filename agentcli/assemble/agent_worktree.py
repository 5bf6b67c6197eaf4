"""A git worktree for a sub-agent, with its folders, sandbox and permissions."""

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
from agentcli.assemble.worktrees import ProjectWorktrees, move_rule
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import Rule

_git = Lock()
"""Held while git changes worktrees: agents run in parallel, and git refuses to add two at once."""


class AgentPlace:
    """An open worktree. Blocking; raises `AgentError`."""

    def __init__(self, session: Environment, permissions: LivePermissions, results_dir: Path | None) -> None:
        self._project = ProjectWorktrees(session)
        with _git:
            self._worktree = self._project.open()
        try:
            self.env = Environment(replace(session.options, cwd=self._worktree.inside(session.cwd)))
            self.sessions = SessionBuilder(self.env)
            moved = partial(move_rule, worktree=self._worktree, home=session.home)
            # The worktree lacks the user's local settings, and its files have other paths.
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
        """Remove the worktree if nothing in it has changed; returns whether it was kept."""
        self.context.launcher.close()
        with _git:
            return self._project.close(self._worktree)


class PlacePermissions(AgentPermissions):
    """Permissions in a worktree: rules of the session, folders and sandbox of the worktree. A rule that matches a file
    of the project also matches its copy."""

    def __init__(self, session: LivePermissions, place: Policy, moved: Callable[[Rule], Rule]) -> None:
        super().__init__(session)
        self._place = place
        self._moved = moved

    @property
    def policy(self) -> Policy:
        shared, place = self._of_session.policy, self._place
        deny = tuple(dict.fromkeys((*shared.deny, *map(self._moved, shared.deny), *place.deny)))
        return replace(
            place,
            mode=shared.mode,
            allow=(*shared.allow, *place.allow),
            ask=tuple(dict.fromkeys((*shared.ask, *map(self._moved, shared.ask), *place.ask))),
            deny=deny,
            # The running sandbox does not hide files that a newer rule denies.
            hidden_from_commands=place.hidden_from_commands
            if {self._moved(rule) for rule in shared.deny} <= set(place.deny)
            else Policy().hidden_from_commands,
        )
