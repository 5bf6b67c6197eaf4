"""Attempts to make git or a shell run something later through files that a sandboxed command leaves."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.quarantine.guard import Guard
from agentcli.sandbox.quarantine.inventory import Repository
from agentcli.sandbox.quarantine.protected import protection
from agentcli.sandbox.quarantine.store import Quarantine
from tests.sandbox.box import Box, ability_or_skip
from tests.support.tables import grouped

pytestmark = pytest.mark.anyio

IDENTITY = "git -c user.name=t -c user.email=t@example.org"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a submodule, and a worktree linked to it: dozens of runs of git."""
    box = Box.make(tmp_path_factory.mktemp("made").resolve() / "box", ability_or_skip())
    source = box.root / "source"
    source.mkdir()
    box.git("init", "-q", str(source))
    box.git("-C", str(source), "commit", "-q", "--allow-empty", "-m", "one")
    box.git("init", "-q")
    box.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source), "sub")
    box.git("commit", "-q", "-m", "two")
    box.git("worktree", "add", "-q", str(box.root / "linked"))
    return box.root


@pytest.fixture
def nested(box: Box, made_once: Path) -> Box:
    """A repository with a submodule and a linked worktree."""
    for name in ("project", "linked"):
        shutil.copytree(made_once / name, box.root / name, symlinks=True, dirs_exist_ok=True)
    # The repository and its worktree name each other by their full paths.
    for path in (box.project / ".git/worktrees/linked/gitdir", box.root / "linked/.git"):
        path.write_text(path.read_text().replace(str(made_once), str(box.root)))
    return box


async def test_a_parent_of_a_protected_path_cannot_be_replaced_by_a_copy(nested: Box) -> None:
    folders = (".git", ".git/modules", ".git/modules/sub", ".git/worktrees", ".git/worktrees/linked")
    done = await nested.run_each([f": git; mv -T {one} {one}-away && cp -r {one}-away {one}" for one in folders])
    assert [command for command, output in done.items() if "resource busy" not in output.content] == []
    assert [one for one in folders if (nested.project / f"{one}-away").exists()] == []


@pytest.mark.parametrize("folder", [".venv", ".venv/bin"])
async def test_a_virtual_environment_cannot_be_replaced_by_a_copy(box: Box, folder: str) -> None:
    await box.run(f"{shlex.quote(sys.executable)} -m venv --without-pip .venv")
    context = box.context()
    for command in (
        f"mv {folder} copy && cp -r copy {folder} && echo evil >> .venv/bin/activate",
        "echo evil >> .venv/bin/activate",
        "rm .venv/bin/activate; ln -s ../../evil .venv/bin/activate",
    ):
        assert "quarantine restore" in str((await box.run(command, context=context)).content)
    assert "evil" not in (box.project / ".venv/bin/activate").read_text()
    output = await box.run(
        ". .venv/bin/activate && touch .venv/bin/tool .venv/lib/new && mv .venv/bin/tool .venv/moved"
    )
    assert not output.is_error, output.content


async def test_a_home_subfolder_cannot_be_replaced_when_home_is_the_project(box: Box) -> None:
    (box.home / ".config" / "git").mkdir()
    at_home = box.with_rules(working_dirs=(box.project, box.home))
    text = await at_home.text(f"mv {box.home}/.config {box.home}/c && cp -r {box.home}/c {box.home}/.config")
    assert "resource busy" in text


async def test_a_link_in_place_of_a_folder_makes_nothing_writable(box: Box) -> None:
    (box.project / ".venv").mkdir()
    (box.outside / "activate").write_text("theirs\n")
    (box.project / ".venv" / "bin").symlink_to(box.outside)
    assert box.outside not in protection((box.project,), None, ["true"]).writable
    assert box.project / ".venv" / "bin" not in protection((box.project,), None, ["true"]).writable
    assert (await box.run("echo evil > .venv/bin/file.txt")).is_error
    assert (box.outside / "file.txt").read_text() == "theirs\n"


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config.worktree", ".git/commondir", ".git/hooks/pre-commit", ".git/modules/sub/config.worktree"),
        *(".git/modules/sub/commondir", ".git/modules/sub/hooks/pre-commit", ".git/worktrees/linked/config.worktree"),
    ],
)
async def test_missing_files_that_git_would_obey_cannot_be_planted(nested: Box, path: str) -> None:
    for hooks in (".git/hooks", ".git/modules/sub/hooks"):
        for sample in (nested.project / hooks).iterdir():
            sample.unlink()
        (nested.project / hooks).rmdir()
    output = await nested.run(f": git; mkdir -p $(dirname {path}) && echo /nowhere > {path}")
    assert "agentcli quarantine restore" in str(output.content)
    assert not (nested.project / path).exists()
    assert not (nested.project / ".git" / "commondir").exists()
    (item,) = Quarantine(nested.quarantine).items()
    assert path.startswith(str(Path(item.path).relative_to(nested.project)))


async def test_git_works_with_all_protections(nested: Box) -> None:
    command = (
        "git config extensions.worktreeConfig; set -e; echo a > a; git add a; ID commit -qm three; git status --short;"
        "cd sub; echo b > b; git add b; ID commit -qm four; git rev-parse --show-toplevel; cd ..; git add sub;"
        "ID commit -qm five; git submodule status; git worktree list; git gc -q;"
        "git checkout -qb other; git stash list; git worktree add -q /tmp/another; git log --oneline"
    )
    output = await nested.run(command.replace("ID", IDENTITY))
    assert not output.is_error, output.content
    assert f"{nested.project}/sub" in str(output.content)
    assert "five" in nested.git("log", "--oneline")
    assert nested.git("status", "--short") == ""


async def test_git_works_where_worktrees_have_their_own_configuration(nested: Box) -> None:
    nested.git("config", "extensions.worktreeConfig", "true")
    output = await nested.run("git status --short && git -C sub status --short")
    assert output.content == "(no output, exit code 0)"


async def test_a_repository_with_a_separate_git_folder_works_and_cannot_be_redirected(box: Box) -> None:
    box.git("init", "-q")
    (box.project / "files").mkdir()
    box.git("config", "core.worktree", "../files")
    text = await box.text("git rev-parse --show-toplevel; mkdir c; echo ../c > .git/commondir")
    assert text.startswith(f"{box.project}/files\n")
    assert not (box.project / ".git" / "commondir").exists()


@pytest.mark.parametrize("word", [": git", "true"])
async def test_the_git_folder_location_of_a_submodule_cannot_be_changed(nested: Box, word: str) -> None:
    nested.git("worktree", "add", "-q", "trees/inner")
    for folder in ("sub", "trees/inner"):
        before = (nested.project / folder / ".git").read_text()
        for plant in (
            f"echo gitdir: ../evil > {folder}/.git",
            f"rm -f {folder}/.git; echo gitdir: ../evil > {folder}/.git",
            f"mv -T {folder} {folder}-away; cp -r {folder}-away {folder}; echo gitdir: ../evil > {folder}/.git",
        ):
            assert (await nested.run(f"{word}; {plant}")).is_error
            await nested.run(f"git worktree list; {plant}")
            assert (nested.project / folder / ".git").read_text() == before
    assert not (await nested.run("echo x > sub/x; mkdir d; mv sub/x d; git mv .gitmodules d")).is_error


async def test_a_submodule_behind_a_link_makes_nothing_writable(nested: Box) -> None:
    (nested.project / "sub").rename(nested.outside / "sub")
    (nested.project / "sub").symlink_to(nested.outside / "sub")
    found = protection((nested.project,), None, ["true"])
    assert not any("sub" in path.parts for path in (*found.writable, *found.read_only))


async def test_too_many_submodules_are_read_only_as_one(box: Box) -> None:
    box.git("init", "-q")
    for number in range(40):
        folder = box.project / ".git" / "modules" / "lib" / str(number)
        folder.mkdir(parents=True)
        (folder / "HEAD").touch()
    found = protection((box.project,), None, ["git status"])
    assert box.project / ".git" / "modules" in found.read_only
    assert len(found.writable + found.read_only + found.missing) < 25


async def test_a_folder_that_a_running_command_could_replace_is_not_made_writable(box: Box) -> None:
    launcher = box.with_rules(working_dirs=(box.project, box.home)).launcher()
    early = launcher.launch(["sleep", "1"], box.project, os.environ)
    local = box.home / ".local"
    (local / "bin").mkdir(parents=True)
    launcher.permit(str(local / "bin"))
    during = launcher.launch(["true"], box.project, os.environ)
    early.close()
    during.close()
    after = launcher.launch(["true"], box.project, os.environ)
    after.close()
    assert not _opens(during.arguments, local)
    assert _opens(after.arguments, local)


async def test_a_background_command_does_not_weaken_the_sandbox_of_others(nested: Box) -> None:
    launcher: BubblewrapLauncher = nested.launcher()
    server = launcher.launch(["sleep", "1"], nested.project, os.environ)
    during = launcher.launch(["git", "status"], nested.project, os.environ)
    server.close()
    during.close()
    assert _opens(during.arguments, nested.project / ".git" / "modules" / "sub")


def _opens(arguments: tuple[str, ...], path: Path) -> bool:
    return ("--bind", str(path)) in pairwise(arguments)


@pytest.mark.parametrize(
    ("command", "makes"),
    grouped(
        {
            True: [
                *("git init", "git init -q . && ls", "cd x; /usr/bin/git -C y -c a=b clone z"),
                *("GIT_DIR=x git --bare init", "env A=b git init", "timeout 5 git clone x"),
                *("if true; then (git init); fi", "x=$(git init)", "bash -c 'git init'"),
            ],
            False: [
                *("echo x # git init", "# git init\nmkdir .git", "echo git init", "echo 'git init'"),
                *("git commit -m 'git init'", "git log init", "git -C init status", "cat <<E\ngit init\nE"),
            ],
        }
    ),
)
async def test_only_a_git_command_may_create_a_repository(command: str, makes: bool) -> None:
    words = ["/bin/bash", "-c", 'eval "$1"', "bash", command]
    assert protection([Path("/missing")], None, words).makes_repository is makes


async def test_words_in_a_comment_make_no_git_folder_writable(box: Box) -> None:
    output = await box.run("mkdir -p .git # git init\necho evil > .git/config")
    assert "quarantine restore" in str(output.content)
    assert not (box.project / ".git").exists()


async def test_a_repository_that_changes_while_it_is_judged_is_judged_again(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, judged = Guard._objection, list[str | None]()

    def change_then(guard: Guard, repository: Repository) -> str | None:
        judged.append(judge(guard, repository))
        if len(judged) == 1:  # as a command in the background would
            (repository.path / "config").write_text("[core]\n\tfsmonitor = evil\n")
        return judged[-1]

    monkeypatch.setattr(Guard, "_objection", change_then)
    output = await box.run("mkdir -p new/.git/objects new/.git/refs && echo ref: refs/heads/x > new/.git/HEAD")
    assert judged == [None, "it sets core.fsmonitor"]
    assert "it sets core.fsmonitor" in str(output.content)
    assert not (box.project / "new" / ".git").exists()


async def test_a_repository_that_never_stops_changing_does_not_become_known(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, changes = Guard._objection, list[Path]()

    def change_then(guard: Guard, repository: Repository) -> str | None:
        reason = judge(guard, repository)
        (repository.path / "config").write_text(f"[core]\n\tcompression = {len(changes)}\n")
        changes.append(repository.path)
        return reason

    launcher = box.launcher()
    with monkeypatch.context() as patch:
        patch.setattr(Guard, "_objection", change_then)
        output = await box.run("mkdir -p new/.git", context=box.context(launcher))
    assert str(output.content).count("is harmless and was kept") == 1
    assert launcher._inventory.known(changes[-1]) is None


async def test_the_steps_of_an_approved_rebase_stay(box: Box) -> None:
    identity = "-c user.name=u -c user.email=u@example.org"
    await box.run("git init -q .")
    for name in ("a", "b", "c"):
        await box.run(f"touch {name} && git add {name} && git {identity} commit -qm {name}")
    output = await box.run(f"git {identity} rebase -x 'test -e missing' HEAD~2")
    assert "quarantine" not in str(output.content)
    todo = box.project / ".git" / "rebase-merge" / "git-rebase-todo"
    assert "exec test -e missing" in todo.read_text()
    await box.run("git rebase --abort")
    assert not todo.parent.exists()
