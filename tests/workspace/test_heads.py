"""Commits are read from the files of the repository, whatever these contain."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.workspace.git import head_commit
from tests.workspace.folders import Work, git

ONE = "1" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_the_commit_is_found_on_a_branch_packed_detached_and_in_a_further_work_tree(
    project: Path, tmp_path: Path
) -> None:
    (project / "deep").mkdir()
    commit = git(project, "rev-parse", "HEAD")
    assert head_commit(project) == head_commit(project / "deep") == commit
    git(project, "worktree", "add", "-q", "-b", "other", str(tmp_path / "further"))
    assert head_commit(tmp_path / "further") == commit
    git(project, "pack-refs", "--all")
    assert head_commit(project) == head_commit(tmp_path / "further") == commit
    git(project, "checkout", "-q", "--detach")
    assert head_commit(project) == commit


@pytest.mark.parametrize(
    "head", ["", "ref: refs/../../secret", "ref: /etc/passwd", "ref: refs/heads/none", "ref: refs/a", "\0", "z" * 40]
)
def test_an_invalid_head_is_no_commit(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git" / "refs").mkdir(parents=True)
    (tmp_path / "secret").write_text(ONE)
    (tmp_path / ".git" / "refs" / "a").write_text("ref: refs/a")
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert head_commit(tmp_path) is None


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert head_commit(tmp_path) is None


@pytest.mark.anyio
async def test_an_undo_reports_that_commits_stay(work: Work, project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    async with work.submission():
        (project / "a.txt").write_text("2\n")
    assert "commit" not in (await work.undo()).text
    async with work.submission():
        (project / "a.txt").write_text("3\n")
        git(project, "commit", "-q", "-a", "-m", "second")
    second = git(project, "rev-parse", "HEAD")
    report = await work.undo()
    assert report.text == (
        f"The repository of {project} went from commit {first[:10]} to {second[:10]} meanwhile: "
        "undo does not change commits and branches; use git for that."
    )
    assert (project / "a.txt").read_text() == "1\n"
    assert (await work.undo()).text == "Nothing more to undo in this session."
    assert git(project, "rev-parse", "HEAD") == second


@pytest.mark.anyio
async def test_an_undo_of_only_a_commit_names_it(work: Work, project: Path) -> None:
    (project / "a.txt").write_text("mine\n")
    async with work.submission():
        git(project, "commit", "-q", "-a", "-m", "second")
    report = await work.undo()
    assert not report.done
    assert "undo does not change commits and branches" in report.text
