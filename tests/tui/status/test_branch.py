"""The branch in the status line is the repository's, whoever changes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.tui.app import AgentApp
from agentcli.tui.status import data
from agentcli.tui.status.data import branch_of
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


@pytest.mark.parametrize("by", ["a command", "another terminal", "another terminal after /clear"])
def test_a_checkout_is_shown_soon(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setattr(data, "POLL_SECONDS", 3_600.0 if by == "a command" else 0.05)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: "trunk" in rows(app)[-1])
        if by == "a command":
            await sends(pilot, app, "!git checkout -q topic/one")
            await idle(pilot, app)
        else:
            if "/clear" in by:
                first = app.chat.session.engine
                await sends(pilot, app, "/clear")
                await until(pilot, lambda: app.chat.session.engine not in (None, first))
            git(repository, "checkout", "-q", "topic/one")
        await until(pilot, lambda: "topic/one" in rows(app)[-1])
        assert "trunk" not in rows(app)[-1]

    Desk(tmp_path, reply(call("Bash", command="git status"))).play(script, (120, 40))
