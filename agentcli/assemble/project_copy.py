"""Copies of the session's folders for an agent, and the session's permissions for calls in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.subagents.shared import AgentPermissions
from agentcli.core.files.access import is_below, real_path
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.core.processes.launch import Launcher
from agentcli.permissions.policy import Policy
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.permissions.call_review import CallReview

_ELSEWHERE = "This agent may change files only in its copy of the project."


class ProjectCopy:
    """The place of an agent whose tools use copies of the session's folders under the names of the originals."""

    branch = ""

    def __init__(self, context: ToolContext, permissions: LivePermissions, folders: Sequence[Path]) -> None:
        """`context`: has a launcher for the copies; `folders`: the session's own working directories."""
        self.context = context
        self.permissions = CopyPermissions(permissions, context.launcher, tuple(folders))

    @property
    def path(self) -> Path:
        return next(iter(self.context.launcher.copies.values()))

    def close(self) -> bool:
        """Do nothing: the copies belong to who made them."""
        return False


class CopyPermissions(AgentPermissions):
    """A mode that the agent enters is its own: a plan that is approved there is not the session's."""

    def __init__(self, session: LivePermissions, launcher: Launcher, folders: tuple[Path, ...]) -> None:
        super().__init__(session)
        self._launcher, self._folders = launcher, folders
        self._temp = launcher.temp_folder
        self._own_mode: PermissionMode | None = None

    @property
    def policy(self) -> Policy:
        shared = super().policy
        values = {spec.name: getattr(shared, spec.name) for spec in fields(Policy)}
        values["mode"] = self._own_mode or shared.mode
        if self._temp is not None:
            values |= {"temp": self._temp, "scratch": (self._temp,)}
        return CopyPolicy(**values, launcher=self._launcher, folders=self._folders)

    def set_mode(self, mode: PermissionMode) -> None:
        self._own_mode = mode

    def leave_plan(self) -> None:
        if self.mode is PermissionMode.PLAN:
            self._own_mode = self.before_plan


@frozen
class CopyPolicy(Policy):
    """Decides about a path in a copy as about the original, and allows changes nowhere else."""

    launcher: Launcher = Launcher()
    folders: tuple[Path, ...] = ()

    def _original(self, need: Need) -> Need:
        if need.kind not in ("read", "write"):
            return need
        # Links count as they are in the copy.
        return replace(need, target=self.launcher.inside(real_path(Path(need.target))), real="")

    def _review(self, tool_name: str, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]) -> CallReview:
        return Policy._review(self, tool_name, [*map(self._original, needs)], cwd, self.folders)

    def decide(
        self, tool_name: str, input: Json, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]
    ) -> Decision:
        places = (*map(str, self.launcher.copies.values()), *map(str, self.scratch))
        if any(need.kind == "write" and not is_below(real_path(Path(need.target)), places) for need in needs):
            return Decision("deny", _ELSEWHERE, denied_by="the what-if")
        return Policy.decide(self, tool_name, input, needs, cwd, working_dirs)

    def hides(self, path: str, cwd: Path, working_dirs: Sequence[Path]) -> bool:
        return Policy.hides(self, self.launcher.inside(path), cwd, working_dirs)
