"""Worktrees with real git: made from HEAD, removed when unchanged, kept with anything that is not in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.errors import AgentError, UsageError
from agentcli.workspace.worktrees import Worktrees
from tests.workspace.folders import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.txt").write_text("one\n")
    (folder / ".gitignore").write_text("cache/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@pytest.fixture
def worktrees(repository: Path, tmp_path: Path) -> Worktrees:
    return Worktrees(tmp_path / "state", repository, os.environ)


def test_a_worktree_starts_from_the_last_commit_on_its_own_branch(repository: Path, worktrees: Worktrees) -> None:
    (repository / "src/a.txt").write_text("not committed\n")
    made = worktrees.open("fix")
    assert (made.path / "src/a.txt").read_text() == "one\n"
    assert git(made.path, "branch", "--show-current") == "agentcli/fix"
    assert made.inside(repository / "src") == made.path / "src"
    assert made.inside(repository / "missing") == made.path
    worktrees.close(made)


def test_an_unchanged_worktree_leaves_no_trace(repository: Path, worktrees: Worktrees, tmp_path: Path) -> None:
    made = worktrees.open("fix")
    (made.path / "cache").mkdir()
    (made.path / "cache/x").write_text("ignored files do not count")
    assert not worktrees.close(made)
    assert list((tmp_path / "state").iterdir()) == []
    assert git(repository, "branch", "--list", "agentcli/*") == ""
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("change", ["edit", "new file", "commit"])
def test_a_changed_worktree_is_kept_and_found_again(worktrees: Worktrees, change: str) -> None:
    made = worktrees.open("fix")
    (made.path / ("new.txt" if change != "edit" else "src/a.txt")).write_text("two\n")
    if change == "commit":
        git(made.path, "add", ".")
        git(made.path, "commit", "-qm", "two")
    assert worktrees.close(made)
    again = worktrees.open("fix")
    assert again == made
    assert worktrees.close(again)


def test_a_worktree_in_use_is_not_opened_twice(worktrees: Worktrees, repository: Path, tmp_path: Path) -> None:
    made = worktrees.open("fix")
    other = Worktrees(tmp_path / "state", repository, os.environ)
    with pytest.raises(AgentError, match="in use"):
        other.open("fix")
    other.sweep()
    assert made.path.is_dir(), "a sweep leaves what is in use"
    worktrees.close(made)


def test_a_sweep_removes_unchanged_worktrees_of_killed_processes(repository: Path, tmp_path: Path) -> None:
    for name, text in (("clean", ""), ("dirty", "x")):
        killed = Worktrees(tmp_path / "state", repository, os.environ)
        made = killed.open(name)
        if text:
            (made.path / "new.txt").write_text(text)
        killed._unlock(name)  # what the end of a process does
    Worktrees(tmp_path / "state", repository, os.environ).sweep()
    assert not (tmp_path / "state/clean").exists()
    assert (tmp_path / "state/dirty/new.txt").exists()


def test_hooks_of_the_repository_do_not_run(repository: Path, worktrees: Worktrees, tmp_path: Path) -> None:
    hook = repository / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    worktrees.close(worktrees.open("fix"))
    assert not (tmp_path / "ran").exists()


def test_a_repository_without_a_commit_is_an_error_with_advice(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(AgentError, match="Commit first"):
        Worktrees(tmp_path / "state", tmp_path / "empty", os.environ).open("fix")


@pytest.mark.parametrize("name", ["", "a b", "../x", "a..b", "-x", "x" * 65, "x.lock"])
def test_a_name_that_could_be_a_path_or_a_flag_is_refused(worktrees: Worktrees, name: str) -> None:
    with pytest.raises(UsageError, match="not a name"):
        worktrees.open(name)
