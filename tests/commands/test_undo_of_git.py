"""/undo and /redo of git commands on the assembled engine: what they staged is restored, what the user staged stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.messages import Json
from tests.commands.test_commands import engine_on, said
from tests.commands.test_undo_beside_user import submitted
from tests.support.fakes import collect
from tests.support.scripts import call, reply
from tests.workspace.test_heads import git

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "mine.txt"):
        (folder / name).write_text(f"{name}\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def status(project: Path) -> str:
    return git(project, "status", "--porcelain", "--untracked-files=all", "--no-renames")


def bash(command: str) -> Json:
    return reply(call("Bash", command=command))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "git mv a.txt moved.txt",
            "1 file recreated, 1 file removed, 2 entries of git's index restored.\n  A a.txt\n  D moved.txt",
        ),
        ("git rm -q a.txt", "1 file recreated, 1 entry of git's index restored.\n  A a.txt"),
        ("echo x > a.txt; git add a.txt", "1 file restored, 1 entry of git's index restored.\n  M a.txt"),
        ("git rm -q --cached a.txt", "1 entry of git's index restored.\n  M a.txt  (only in git's index)"),
        ("echo x > new.txt; git add -A", "1 file removed, 1 entry of git's index restored.\n  D new.txt"),
        ("git mv a.txt moved.txt; git mv moved.txt a.txt; echo x > new.txt", "1 file removed.\n  D new.txt"),
    ],
)
async def test_undo_restores_the_index_and_keeps_what_the_user_has_staged(
    tmp_path: Path, project: Path, command: str, text: str
) -> None:
    (project / "mine.txt").write_text("staged\n")
    git(project, "add", "mine.txt")
    before = status(project)
    async with engine_on(tmp_path, bash(command), "Done.") as engine:
        await collect(engine.submit("tidy up"))
        after = status(project)
        assert await said(engine, "/undo") == f"Undid the changes of “tidy up”: {text}"
        assert status(project) == before == "M  mine.txt"
        await said(engine, "/redo")
        assert status(project) == after


async def test_staging_by_the_user_between_and_during_calls_is_not_undone(tmp_path: Path, project: Path) -> None:
    # The first command begins when the user is done: git allows only one of both to write the index.
    first = "while git diff --cached --quiet; do sleep 0.01; done; git mv a.txt moved.txt"
    calls = [bash(first), bash("python3 -c 'print(1)'"), bash("git mv moved.txt third.txt")]
    for name in ("mine.txt", "b.txt"):
        (project / name).write_text("mine\n")
    staged = iter(("mine.txt", "b.txt"))

    def stage() -> None:
        if name := next(staged, ""):
            git(project, "add", name)

    async with engine_on(tmp_path, *calls, "Done.") as engine:
        await submitted(engine, "go", ev.ToolStarted, "Bash", stage)
        await said(engine, "/undo")
    assert status(project) == "M  b.txt\nM  mine.txt"


async def test_an_entry_that_the_user_changed_later_and_one_that_was_committed_stay(
    tmp_path: Path, project: Path
) -> None:
    stage = bash("echo x > a.txt; git add a.txt")
    async with engine_on(tmp_path, stage, "Done.", stage, "Done.") as engine:
        await collect(engine.submit("stage it"))
        (project / "a.txt").write_text("mine\n")
        git(project, "add", "a.txt")
        (project / "a.txt").write_text("x\n")
        assert "index" not in await said(engine, "/undo")
        assert git(project, "show", ":a.txt") == "mine"
        git(project, "reset", "-q", "--hard")
        await collect(engine.submit("stage it again"))
        git(project, "commit", "-q", "-m", "mine")
        assert "index" not in await said(engine, "/undo")
    assert status(project) == "M a.txt", "the file is as before, which is a change that nobody has staged"


async def test_a_commit_is_named_also_when_an_older_prompt_is_undone(tmp_path: Path, project: Path) -> None:
    commit = bash("git -c user.name=n -c user.email=e@example.org commit -q -a -m second")
    async with engine_on(tmp_path, bash("echo x > a.txt"), "Done.", commit, "Done.") as engine:
        await collect(engine.submit("change it"))
        await collect(engine.submit("commit it"))
        text = await said(engine, "/undo")
    assert text.startswith("Undid the changes of “change it”: 1 file restored.\n  M a.txt\nThe repository of ")
    assert "undo does not change commits and branches" in text
    assert status(project) == "M a.txt"


async def test_an_index_that_another_git_has_locked_is_named_with_what_to_do(tmp_path: Path, project: Path) -> None:
    async with engine_on(tmp_path, bash("git mv a.txt moved.txt"), "Done.") as engine:
        await collect(engine.submit("rename it"))
        (project / ".git" / "index.lock").touch()
        text = await said(engine, "/undo")
    assert "Git's index was not restored: git update-index failed" in text
    assert text.endswith("To unstage a file: git restore --staged FILE.")


async def test_a_link_in_place_of_the_index_is_not_followed(tmp_path: Path, project: Path) -> None:
    async with engine_on(tmp_path, bash("git mv a.txt moved.txt"), "Done.") as engine:
        await collect(engine.submit("rename it"))
        index, elsewhere = project / ".git" / "index", tmp_path / "elsewhere"
        index.rename(elsewhere)
        index.symlink_to(elsewhere)
        content = elsewhere.read_bytes()
        await said(engine, "/undo")
        assert elsewhere.read_bytes() == content


async def test_a_repository_that_goes_away_after_something_was_staged_does_not_end_the_session(
    tmp_path: Path, project: Path
) -> None:
    calls = [bash("git mv a.txt moved.txt"), bash("rm -rf .git"), bash("echo x > new.txt")]
    async with engine_on(tmp_path, *calls, "Done.") as engine:
        events = await collect(engine.submit("tidy up"))
        assert isinstance(events[-1], ev.Result)
        assert not events[-1].is_error
        await said(engine, "/undo")
    assert (project / "a.txt").exists()
    assert not (project / "new.txt").exists()


async def test_an_index_that_cannot_be_read_is_named_and_the_files_are_undone(tmp_path: Path, project: Path) -> None:
    git(project, "update-index", "--split-index")
    async with engine_on(tmp_path, bash("git mv a.txt moved.txt"), "Done.") as engine:
        events = await collect(engine.submit("tidy up"))
        assert [event.text for event in events if isinstance(event, ev.NoticeRaised)] == []
        first, *rest = (await said(engine, "/undo")).splitlines()
        assert first == "Undid the changes of “tidy up”: 1 file recreated, 1 file removed."
        assert any("what was staged stays staged" in line for line in rest), rest
    assert status(project).startswith("D  a.txt")
