"""Git worktrees of a project: their folder, their trust (copied from the project), and rules for their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentcli.assemble.environment import Environment
from agentcli.config.trust import trust_root
from agentcli.core.errors import UsageError
from agentcli.core.files.access import real_path
from agentcli.permissions.rules import READING_TOOLS, WRITING_TOOLS, Rule
from agentcli.session.base import unique_project_key
from agentcli.workspace.worktrees import Worktree, Worktrees, find_recorded_worktree


class ProjectWorktrees:
    """Worktrees of the project that an environment is in. Blocking; methods raise `AgentError`."""

    def __init__(self, env: Environment) -> None:
        root = trust_root(env.cwd)
        if not (root / ".git").exists():
            raise UsageError("A worktree needs a git repository, and this folder is not in one.")
        if env.paths.state_dir is None:
            raise UsageError("There is no place for a worktree: no home folder. Set HOME or AGENTCLI_STATE_DIR.")
        if not env.is_trusted():
            raise UsageError(
                "A worktree runs git in this repository, so the folder has to be trusted first: "
                "`agentcli trust`, or --trust for a single run."
            )
        self._env = env
        self._git = Worktrees(worktrees_folder(env.paths.state_dir, root), root, env.environ)

    def open(self, name: str = "") -> Worktree:
        """Open an existing worktree or create one; "": create one with a generated name."""
        from secrets import token_hex

        self._git.sweep()
        worktree = self._git.open(name or f"task-{token_hex(3)}")
        self._env.trust.trust_copy(self._env.trust.state(self._env.cwd), worktree.path)
        return worktree

    def close(self, worktree: Worktree) -> bool:
        """Remove the worktree if nothing in it has changed; returns whether it was kept."""
        kept = self._git.close(worktree)
        if not kept:
            self._env.trust.distrust(worktree.path)
        return kept


def project_worktrees_folder(env: Environment) -> tuple[Path, ...]:
    """The folder of this project's worktrees, which the session may read, because agents work there. Empty outside of a
    repository."""
    root, state_dir = trust_root(env.cwd), env.paths.state_dir
    return (worktrees_folder(state_dir, root),) if state_dir is not None and (root / ".git").exists() else ()


def worktrees_folder(state_dir: Path, root: Path) -> Path:
    return Path(real_path(state_dir), "worktrees", unique_project_key(root))


def current_worktree(env: Environment) -> Worktree | None:
    """The agentcli worktree that contains the environment's folder, if any."""
    root, state_dir = trust_root(env.cwd), env.paths.state_dir
    if state_dir is None or root.parent.parent != Path(real_path(state_dir), "worktrees"):
        return None
    return find_recorded_worktree(root)


def move_rule(rule: Rule, worktree: Worktree, home: Path | None) -> Rule:
    """Translate a rule to the files of the worktree; a rule that matches no file of the repository is unchanged."""
    root, spec = rule.root, rule.spec
    if root is not None and root.is_relative_to(worktree.repository):
        root = worktree.path / root.relative_to(worktree.repository)
    if spec is not None and rule.tool in READING_TOOLS | WRITING_TOOLS:
        absolute = f"/{home}{spec[1:]}" if spec.startswith("~/") and home is not None else spec
        if absolute.startswith(f"/{worktree.repository}/"):
            spec = f"/{worktree.path}{absolute.removeprefix(f'/{worktree.repository}')}"
    return replace(rule, root=root, spec=spec)
