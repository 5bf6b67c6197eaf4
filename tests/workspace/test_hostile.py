"""A hostile repository: a snapshot runs nothing from it and leaves the user's git untouched."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from agentcli.workspace.git import find_git
from tests.workspace.folders import git, state_of, working

pytestmark = pytest.mark.anyio


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file below with its content and its time of change."""
    found = {}
    for parent, _folders, files in os.walk(folder):
        for name in files:
            path = Path(parent) / name
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path.relative_to(folder).as_posix()] = (digest, path.stat().st_mtime_ns)
    return found


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a trace wherever it is run from."""
    program = tmp_path / "trap"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {tmp_path}/sprung\ncat\n')
    program.chmod(0o755)
    return program


def hostile(folder: Path, trap: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\r\ntwo\n$Id$\n")
    (folder / ".gitattributes").write_text(
        "* text=auto eol=crlf ident filter=evil diff=evil merge=evil\n*.u working-tree-encoding=UTF-16\n"
        "[attr]binary filter=evil\n"
    )
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "pre-auto-gc"):
        (hooks / name).write_bytes(trap.read_bytes())
        (hooks / name).chmod(0o755)
    with (folder / ".git" / "config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n\tattributesFile = /nowhere\n"
            f"\teditor = {trap}\n\tsshCommand = {trap}\n\talternateRefsCommand = {trap}\n\tautocrlf = true\n"
            f'[filter "evil"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\trequired = true\n'
            f'[diff "evil"]\n\ttextconv = {trap}\n\tcommand = {trap}\n'
        )
    return folder


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch, trap: Path, tmp_path: Path) -> None:
    """The user's environment, set against us in every way git knows."""
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {trap}\n\thooksPath = {tmp_path}\n")
    for name, value in {
        "HOME": str(wrong),
        "GIT_DIR": str(wrong),
        "GIT_WORK_TREE": str(wrong),
        "GIT_INDEX_FILE": str(wrong / "index"),
        "GIT_OBJECT_DIRECTORY": str(wrong),
        "GIT_EXTERNAL_DIFF": str(trap),
        "GIT_PAGER": str(trap),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap),
        "GIT_EXEC_PATH": str(wrong),
        "GIT_TEMPLATE_DIR": str(wrong),
        "GIT_CEILING_DIRECTORIES": "/",
    }.items():
        monkeypatch.setenv(name, value)


async def test_nothing_from_a_repository_runs_and_its_git_folder_is_unchanged(
    tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = hostile(tmp_path / "project", trap)
    nested = hostile(project / "nested", trap)
    git(project, "stash", "list")
    (tmp_path / "sprung").unlink(missing_ok=True)
    own = fingerprint(project / ".git"), fingerprint(nested / ".git")
    before = state_of(project)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap))
    async with working(tmp_path / "state", project) as work:
        for number in range(3):
            async with work.submission():
                (project / "a.txt").write_bytes(b"crlf\r\nlf\n\0" * number)
                (nested / "a.txt").write_bytes(b"x\r\n" * number)
                (project / "b.u").write_text("not utf-16")
            assert await work.history.changes()
            assert (await work.history.diff("session", work.folders)).folders
        for _number in range(3):
            assert (await work.undo()).kept == ()
        assert state_of(project) == before
        while (await work.redo()).done:
            pass
        assert (project / "a.txt").read_bytes() == b"crlf\r\nlf\n\0" * 2
    assert not (tmp_path / "sprung").exists()
    assert (fingerprint(project / ".git"), fingerprint(nested / ".git")) == own
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name)
    subprocess.run(["git", "status"], cwd=project, check=False, capture_output=True)
    assert (tmp_path / "sprung").exists(), "the traps are real: git by itself runs into them"


@pytest.mark.usefixtures("armed")
async def test_the_users_own_settings_and_environment_do_not_reach_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"a\r\n")
    async with working(tmp_path / "state", project) as work:
        async with work.submission():
            (project / "a.txt").write_bytes(b"b\r\n")
        assert work.history.take_notice() is None
        assert (await work.undo()).restored == (str(project / "a.txt"),)
    assert (project / "a.txt").read_bytes() == b"a\r\n"
    assert not (tmp_path / "sprung").exists()
    assert list((tmp_path / "wrong").iterdir()) == [tmp_path / "wrong" / ".gitconfig"]


async def test_a_repository_made_by_the_agent_cannot_run_anything_either(tmp_path: Path, trap: Path) -> None:
    """Files planted during a submission are present when the snapshot at its end is taken."""
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    (project / "lib" / "a.txt").write_text("1")
    async with working(tmp_path / "state", project) as work:
        async with work.submission():
            hostile(project / "planted", trap)
            git(project / "lib", "init", "-q")
            with (project / "lib" / ".git" / "config").open("a") as config:
                config.write(f"[core]\n\tfsmonitor = {trap}\n")
            (project / "lib" / "a.txt").write_text("2")
            (tmp_path / "sprung").unlink(missing_ok=True)
        for _time in range(2):
            await work.history.changes()
        await work.undo()
    assert (project / "lib" / "a.txt").read_text() == "1"
    assert not (tmp_path / "sprung").exists()


async def test_a_git_inside_a_working_directory_is_never_run(tmp_path: Path, trap: Path) -> None:
    planted = tmp_path / "project" / "bin"
    planted.mkdir(parents=True)
    (planted / "git").write_bytes(trap.read_bytes())
    (planted / "git").chmod(0o755)
    for entry in (str(planted), ".", "", "bin"):
        assert find_git(entry, [tmp_path / "project"]) is None
    path = f"{planted}:{os.environ['PATH']}"
    found = find_git(path, [tmp_path / "project"])
    assert found is not None
    assert not found.startswith(str(tmp_path))
