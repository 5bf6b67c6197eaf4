"""`--worktree`: run the whole program in a git worktree, and remove that afterwards if it has no changes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentcli.cli.flags.parse import Parsed
from agentcli.cli.output import complain
from agentcli.core.errors import AgentError
from agentcli.core.processes.shell import shown_name


@contextmanager
def in_worktree(parsed: Parsed, cwd: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Make the worktree the current folder, then remove it unless it has changes. Raises `AgentError`."""
    from agentcli.assemble import Options
    from agentcli.assemble.environment import Environment
    from agentcli.assemble.worktrees import ProjectWorktrees

    options = Options(cwd=cwd, environ=environ, settings=parsed.get("settings"), trust=bool(parsed.get("trust")))
    worktrees = ProjectWorktrees(Environment(options))
    worktree = worktrees.open(parsed.get("worktree") or "")
    try:
        os.chdir(worktree.inside(Path(os.path.realpath(cwd))))
        yield
    finally:
        os.chdir(cwd)
        try:
            if worktrees.close(worktree):
                where = shown_name(str(worktree.path))
                complain(
                    f"The worktree {worktree.name} has changes and is kept: {where}, branch {worktree.branch}. "
                    f"To continue in it: agentcli --worktree={worktree.name}"
                )
        except AgentError as error:
            complain(f"The worktree {worktree.name} is kept: {error}")
