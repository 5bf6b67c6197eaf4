"""Diffs of the working directories: only the agent's changes, or everything against HEAD."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.text.unified_diff import FileDiff, parse_files
from agentcli.workspace import diffs
from agentcli.workspace.base import DiffScope
from agentcli.workspace.diffs import NO_REPOSITORY, _prepare
from tests.workspace.folders import Work, git, state_of, working

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "b.txt").write_text("".join(f"line {number}\n" for number in range(20)))
    return folder


def committed(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


async def files_of(work: Work, scope: DiffScope) -> dict[str, FileDiff]:
    found = await work.history.diff(scope, work.folders)
    assert not found.problem
    return {file.path: file for folder in found.folders for file in parse_files(folder.text)}


def code(file: FileDiff) -> list[str]:
    return [f"{line.sign}{line.text}" for hunk in file.hunks for line in hunk.lines if line.sign in ("+", "-")]


async def test_the_session_shows_changes_of_its_prompts_and_none_of_the_user(work: Work, project: Path) -> None:
    async with work.submission():
        (project / "a.txt").write_text("one\nTWO\nthree\n")
    (project / "a.txt").write_text("one\nTWO\nthree\nmine\n")
    (project / "mine.txt").write_text("mine\n")
    async with work.submission():
        (project / "a.txt").write_text("ONE\nTWO\nthree\nmine\n")
        (project / "c.txt").write_text("c\n")
    async with work.submission():
        (project / "c.txt").write_text("c\nd\n")
    found = await work.history.diff("session", work.folders)
    last = await files_of(work, "prompt")
    files = parse_files(found.folders[0].text)
    # The user's line came between two stretches, which are compared separately, so it is in neither.
    assert [(file.path, code(file)) for file in files] == [
        ("a.txt", ["-two", "+TWO"]),
        ("c.txt", ["+c", "+d"]),
        ("a.txt", ["-one", "+ONE"]),
    ]
    assert {path: code(file) for path, file in last.items()} == {"c.txt": ["+d"]}


async def test_undone_or_reverted_changes_are_not_shown(work: Work, project: Path) -> None:
    async with work.submission():
        (project / "a.txt").write_text("else\n")
        (project / "made.txt").write_text("x\n")
    async with work.submission():
        (project / "a.txt").write_text("one\ntwo\nthree\n")
        (project / "made.txt").unlink()
    async with work.submission():
        (project / "b.txt").write_text("gone\n")
    assert set(await files_of(work, "session")) == {"b.txt"}
    assert (await work.undo()).done
    assert await files_of(work, "session") == {}


async def test_a_file_in_the_place_of_a_folder_is_shown(work: Work, project: Path) -> None:
    async with work.submission():
        (project / "a.txt").write_text("changed\n")
    (project / "a.txt").unlink()
    (project / "a.txt").mkdir()
    (project / "a.txt" / "in.txt").write_text("mine\n")
    async with work.submission():
        (project / "a.txt" / "in.txt").write_text("changed\n")
    files = await files_of(work, "session")
    assert code(files["a.txt/in.txt"]) == ["-mine", "+changed"]
    assert "+changed" in code(files["a.txt"])


async def test_the_work_tree_against_head_has_every_kind_of_change(work: Work, project: Path) -> None:
    (project / "mode.sh").write_text("echo\n")
    (project / "data.bin").write_bytes(b"\0\1" * 9)
    (project / "gone.txt").write_text("gone\n")
    (project / ".gitignore").write_text("*.log\n")
    committed(project)
    (project / "a.txt").write_text("one\ntwo\n3\n")
    (project / "b.txt").rename(project / "renamed.txt")
    (project / "mode.sh").chmod(0o755)
    (project / "data.bin").write_bytes(b"\0\2" * 9)
    (project / "gone.txt").unlink()
    (project / "new.txt").write_text("new\n")
    (project / "empty").touch()
    (project / "tab\tname é.txt").write_text("x\n")
    (project / "out.log").write_text("ignored\n")
    (project / "staged.txt").write_text("staged\n")
    git(project, "add", "staged.txt")
    before, status = state_of(project, ()), git(project, "status", "--porcelain")
    files = await files_of(work, "all")
    assert {path: (file.state, file.remarks()) for path, file in files.items()} == {
        "a.txt": ("modified", []),
        "data.bin": ("modified", ["binary"]),
        "empty": ("added", ["new file", "empty"]),
        "gone.txt": ("deleted", ["deleted"]),
        "mode.sh": ("modified", ["mode 100644 → 100755"]),
        "new.txt": ("added", ["new file"]),
        "renamed.txt": ("renamed", ["renamed from b.txt"]),
        "staged.txt": ("added", ["new file"]),
        "tab\tname é.txt": ("added", ["new file"]),
    }
    assert (files["a.txt"].added, files["a.txt"].removed) == (1, 1)
    assert state_of(project, ()) == before, "nothing is written into the repository"
    assert git(project, "status", "--porcelain") == status


async def test_comparing_with_head_runs_nothing_from_the_repository(work: Work, project: Path, tmp_path: Path) -> None:
    committed(project)
    planted = tmp_path / "planted"
    script = project / ".git" / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {planted}\ncat\n")
    script.chmod(0o755)
    for name in ("diff.external", "core.fsmonitor", "diff.x.textconv", "filter.x.clean", "core.pager"):
        git(project, "config", name, str(script))
    (project / ".gitattributes").write_text("*.txt diff=x filter=x -diff\n")
    (project / "a.txt").write_text("changed\n")
    files = await files_of(work, "all")
    assert "+changed" in code(files["a.txt"])
    assert not planted.exists()


async def test_before_the_first_commit_all_files_are_new_and_without_git_there_is_a_reason(
    work: Work, project: Path
) -> None:
    assert (await work.history.diff("all", work.folders)).problem == NO_REPOSITORY
    git(project, "init", "-q")
    files = await files_of(work, "all")
    assert {path: file.state for path, file in files.items()} == {"a.txt": "added", "b.txt": "added"}


async def test_a_further_work_tree_and_a_folder_inside_of_it_are_compared_with_its_own_head(
    project: Path, tmp_path: Path
) -> None:
    committed(project)
    other = tmp_path / "other"
    git(project, "worktree", "add", "-q", str(other))
    (other / "inner").mkdir()
    (other / "inner" / "x.txt").write_text("x\n")
    (other / "a.txt").write_text("other\n")
    async with working(tmp_path / "state", other / "inner") as work:
        assert set(await files_of(work, "all")) == {"a.txt", "inner/x.txt"}


def test_the_copy_of_the_index_is_as_old_as_the_index(project: Path, tmp_path: Path) -> None:
    """Git compares a file that is as young as the index by its content; with a younger index it trusts the times."""
    committed(project)
    index = project / ".git/index"
    os.utime(index, ns=(1_700_000_000_000_000_000, 1_700_000_000_123_456_789))
    _prepare(project, tmp_path / "borrowed")
    assert (tmp_path / "borrowed/index").stat().st_mtime_ns == index.stat().st_mtime_ns


async def test_a_broken_index_is_rebuilt_from_head(work: Work, project: Path) -> None:
    committed(project)
    (project / ".git" / "index").write_bytes(b"broken")
    (project / "a.txt").write_text("changed\n")
    assert set(await files_of(work, "all")) == {"a.txt"}


async def test_lines_of_the_user_in_a_file_that_both_changed_while_a_prompt_ran_are_not_shown(
    work: Work, project: Path
) -> None:
    path = project / "a.txt"
    work.history.begin("prompt")
    await work.before()
    path.write_text("one\nTWO\nthree\n")
    await work.history.after_change([str(path)])
    path.write_text("one\nTWO\nthree\nmine\n")
    assert code((await files_of(work, "prompt"))["a.txt"]) == ["-two", "+TWO"], "while it runs"
    await work.before()
    path.write_text("ONE\nTWO\nthree\nmine\n")
    await work.history.after_change([str(path)])
    path.write_text("ONE\nTWO\nthree\nmine\nmine too\n")
    await work.history.end()
    for scope in ("prompt", "session"):
        found = await work.history.diff(scope, work.folders)
        shown = [line for file in parse_files(found.folders[0].text) for line in code(file)]
        assert sorted(shown) == ["+ONE", "+TWO", "-one", "-two"]


async def test_a_diff_that_is_cut_does_not_wait_for_the_rest(
    work: Work, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "DIFF_LIMIT", 1000)
    committed(project)
    (project / "a.txt").write_text("four\n" * 1_000_000)
    found = await work.history.diff("all", work.folders)
    assert not found.problem
    assert found.folders[0].cut
