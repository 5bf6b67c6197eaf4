"""The git state in the system context: what it holds, that it is frozen, and where git is not run for it."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine, sessions
from agentcli.workspace.git_status import MAX_FILES, GitStatus, read_git_status
from tests.support.fakes import collect
from tests.support.scripts import provider_on, transport_for

pytestmark = pytest.mark.anyio

GIT = "/usr/bin/git"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not change what these tests see."""
    monkeypatch.setattr(sessions, "DEADLINE_SECONDS", 60.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "topic")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Begin the work")
    return folder


def git(folder: Path, *arguments: str) -> None:
    environ = {
        **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    subprocess.run([GIT, *arguments], cwd=folder, env=environ, check=True)


async def system_of(folder: Path, **rest: object) -> str:
    """The last part of the system prompt in the first request of an assembled engine."""
    transport = transport_for("Done.")
    given: dict[str, object] = {
        "cwd": folder,
        "environ": {"HOME": str(folder.parent), "PATH": os.environ["PATH"]},
        "sandbox": "off",
        "trust": True,
        "provider": provider_on(transport),
    }
    async with build_engine(Options(**{**given, **rest})) as engine:  # type: ignore[arg-type]
        await collect(engine.submit("go"))
    text: str = transport.requests[-1]["system"][-1]["text"]
    return text


async def test_a_trusted_repository_shows_branch_upstream_changes_and_commits(repository: Path) -> None:
    git(repository.parent, "clone", "-q", "--bare", str(repository), "upstream.git")
    git(repository, "remote", "add", "origin", str(repository.parent / "upstream.git"))
    git(repository, "fetch", "-q", "origin")
    git(repository, "branch", "-q", "--set-upstream-to=origin/topic")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Go on")
    (repository / "a.txt").write_text("two\n")
    (repository / "new file.txt").write_text("x")
    text = await system_of(repository)
    assert "Git branch when the session began: topic\n" in text
    assert "Upstream: origin/topic (1 ahead, 0 behind)\n" in text
    assert "Changed files (2):\n M a.txt\n?? new file.txt\nLast commits:\n" in text
    assert text.index("Go on") < text.index("Begin the work")


async def test_a_resumed_session_sends_the_recorded_state_byte_for_byte(repository: Path) -> None:
    before = await system_of(repository)
    assert "No changed files." in before
    (repository / "a.txt").write_text("two\n")
    git(repository, "commit", "-q", "-a", "-m", "Later")
    assert await system_of(repository, continue_latest=True) == before
    assert "Later" in await system_of(repository)


async def test_a_folder_that_is_not_trusted_shows_the_branch_and_runs_no_git(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> None:
        raise AssertionError("git was run")

    monkeypatch.setattr(sessions, "read_git_status", fails)
    monkeypatch.setattr("agentcli.shell.git_config.runs_programs", fails)
    text = await system_of(repository, trust=False)
    assert text.endswith("Git branch when the session began: topic")


@pytest.mark.parametrize("setting", ["filter.x.clean", "core.fsmonitor", "core.sshCommand", "diff.x.textconv"])
async def test_a_configuration_that_names_programs_leaves_the_branch_alone(repository: Path, setting: str) -> None:
    ran = repository.parent / "ran"
    git(repository, "config", setting, f"touch {ran}; cat")
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    (repository / "a.txt").write_text("two\n")
    text = await system_of(repository)
    assert text.endswith("Git branch when the session began: topic")
    assert not ran.exists()


async def test_hooks_and_submodules_are_not_obeyed(repository: Path) -> None:
    ran = repository.parent / "ran"
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    os.utime(repository / "a.txt", (1, 1))
    index = (repository / ".git" / "index").read_bytes()
    assert "No changed files." in await system_of(repository)
    assert not ran.exists()
    assert (repository / ".git" / "index").read_bytes() == index, "no lock is taken, nothing is written"


async def test_names_and_subjects_are_cut_and_cleaned(repository: Path) -> None:
    (repository / "bad\x1b[31m\nname").write_text("x")
    (repository / ("n" * 250)).write_text("x")
    for number in range(MAX_FILES):
        (repository / f"file{number:02}").write_text("x")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Ignore\x1b]0;all\x07 " + "words " * 100)
    for number in range(10):
        git(repository, "commit", "-q", "--allow-empty", "-m", f"Step {number}")
    text = await system_of(repository)
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    assert f"Changed files ({MAX_FILES + 2}):\n" in text
    assert "\nand 2 more\n" in text
    assert max(map(len, text.splitlines())) < 300
    assert "Step 5" in text
    assert "Step 4" not in text


async def test_slow_git_output_is_left_out(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = threading.Event()
    monkeypatch.setattr(sessions, "read_git_status", lambda *_arguments: slow.wait(60) and None)
    monkeypatch.setattr(sessions, "DEADLINE_SECONDS", 0.0)
    assert (await system_of(repository)).endswith("Git branch when the session began: topic")
    slow.set()
    assert read_git_status(GIT, repository, 0.0) is None


def test_missing_repository_commit_or_git_is_handled(tmp_path: Path) -> None:
    assert read_git_status(GIT, tmp_path, 60.0) is None
    assert read_git_status("/nowhere/git", tmp_path, 60.0) is None
    git(tmp_path, "init", "-q", "-b", "main")
    assert read_git_status(GIT, tmp_path, 60.0) == GitStatus(branch="main")
