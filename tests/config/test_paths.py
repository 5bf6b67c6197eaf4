"""What is protected of agentcli's own folders while the agent works in a worktree inside one."""

from __future__ import annotations

from pathlib import Path

from agentcli.config.paths import find_own_parts


def test_a_whole_folder_is_protected_unless_the_project_is_inside(tmp_path: Path) -> None:
    assert find_own_parts(tmp_path / "state", (tmp_path / "project",)) == (tmp_path / "state",)


def test_everything_but_the_worktrees_is_protected_around_a_worktree(tmp_path: Path) -> None:
    worktree = tmp_path / "worktrees/project/fix"
    worktree.mkdir(parents=True)
    (tmp_path / "something new").mkdir()
    parts = {path.name for path in find_own_parts(tmp_path, (worktree,))}
    assert {"sessions", "credentials.json", "credentials.lock", "trust.json", "something new"} <= parts
    assert "worktrees" not in parts
