"""The branch in the status line is the repository's, whoever changes it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from textual.pilot import Pilot

from agentcli.agent.engine import Engine
from agentcli.tui.app import AgentApp
from agentcli.tui.status import data as branch
from agentcli.tui.status.data import BranchWatch, branch_of
from tests.support.scripts import call, reply
from tests.tui.test_app import Desk, idle, rows, sends, until

IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(folder, "branch", "topic/one")
    return folder


def test_worktrees_subfolders_and_detached_heads_have_their_own_branch(repository: Path, tmp_path: Path) -> None:
    (repository / "deep" / "er").mkdir(parents=True)
    assert branch_of(repository / "deep" / "er") == "trunk"
    git(repository, "worktree", "add", "-q", str(tmp_path / "beside"), "topic/one")
    assert branch_of(tmp_path / "beside") == "topic/one"
    assert branch_of(repository) == "trunk"
    git(repository, "checkout", "-q", "--detach")
    assert branch_of(repository) == git(repository, "rev-parse", "HEAD")[:8]
    assert branch_of(tmp_path) == ""
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    assert branch_of(repository) == "", "references in another form"


def test_a_checkout_by_a_command_is_shown_when_the_command_has_ended(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch, "LOOK_SECONDS", 3_600.0)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: "trunk" in rows(app)[-1])
        await sends(pilot, app, "!git checkout -q topic/one")
        await idle(pilot, app)
        await until(pilot, lambda: "topic/one" in rows(app)[-1])
        assert "trunk" not in rows(app)[-1]

    Desk(tmp_path, reply(call("Bash", command="git status"))).play(script, (120, 40))


def test_a_checkout_in_another_terminal_is_shown_soon(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch, "LOOK_SECONDS", 0.05)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: "trunk" in rows(app)[-1])
        git(repository, "checkout", "-q", "topic/one")
        await until(pilot, lambda: "topic/one" in rows(app)[-1])

    Desk(tmp_path).play(script, (120, 40))


def test_the_branch_of_a_newly_opened_session_replaces_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "LOOK_SECONDS", 3_600.0)
    shown: list[str] = []

    def at(folder: str) -> Engine:
        return cast("Engine", SimpleNamespace(root=Path(folder)))

    async def shows(expected: list[str]) -> None:
        async with asyncio.timeout(10):
            while shown != expected:
                await asyncio.sleep(0.01)

    async def run() -> None:
        watch = BranchWatch(shown.append, lambda root: "" if root.name == "bare" else f"branch of {root.name}")
        watch.follow(at("/one"))
        await shows(["branch of one"])
        watch.follow(at("/two"))
        await shows(["branch of one", "branch of two"])
        await watch.aclose()
        watch.follow(at("/bare"))
        await shows(["branch of one", "branch of two", ""])
        await watch.aclose()

    asyncio.run(run())


def test_a_checkout_after_clear_is_shown(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "LOOK_SECONDS", 0.05)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: "trunk" in rows(app)[-1])
        first = app.chat.session.engine
        await sends(pilot, app, "/clear")
        await until(pilot, lambda: app.chat.session.engine not in (None, first))
        git(repository, "checkout", "-q", "topic/one")
        await until(pilot, lambda: "topic/one" in rows(app)[-1])

    Desk(tmp_path).play(script, (120, 40))
