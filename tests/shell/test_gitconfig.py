"""Repositories whose configuration makes git run programs are recognised, as git itself reads that configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agentcli.shell import git_config
from agentcli.shell.git_config import hooks_folders, runs_programs


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def configure(repository: Path, *settings: str) -> None:
    for setting in settings:
        name, _equals, value = setting.partition("=")
        subprocess.run(["git", "-C", str(repository), "config", name, value], check=True)


def test_a_plain_repository_runs_nothing(repository: Path, tmp_path: Path) -> None:
    configure(repository, "user.name=x", "remote.origin.url=https://host/x", "branch.main.remote=origin",
              "core.autocrlf=false", "alias.st=status", "core.fsmonitor=false")  # fmt: skip
    assert runs_programs(repository) is None
    (repository / "below").mkdir()
    assert runs_programs(repository / "below") is None
    assert runs_programs(tmp_path) is None


@pytest.mark.parametrize(
    "setting",
    [
        *("core.fsmonitor=./evil", "core.hooksPath=hooks", "diff.external=./evil", "diff.py.textconv=./evil"),
        *("filter.x.clean=./evil", "filter.x.process=./evil", "core.sshCommand=./evil"),
        *("include.path=../evil.config", "includeIf.gitdir:/x.path=../evil", "gpg.program=./evil"),
        *("credential.helper=./evil", "core.worktree=/", "pager.log=./evil"),
    ],
)
def test_a_setting_that_names_a_program_is_found(repository: Path, setting: str) -> None:
    configure(repository, setting)
    found = runs_programs(repository)
    assert found is not None
    assert setting.partition("=")[0].lower() in found


@pytest.mark.parametrize(
    "text",
    ["[core] fsmonitor = ./evil\n", '[CORE]\n\tFSMonitor="./evil"\n', "[core]\nfs\\\nmonitor = x\n",
     '[filter "a]b"]\nclean = x\n',
     "# a comment that ends in a backslash \\\n[core]\n\tfsmonitor = ./evil\n",
     "[core] ; \\\n\tfsmonitor = ./evil\n",
     "[core]\n\v\tfsmonitor = ./evil\n",
     "[core]\n\tfilemode = true\v\n\tfsmonitor = ./evil\n",
     '[extensions]\n\tpartialClone = o\n[remote "o"]\n\tpromisor = true\n\turl = .\n\tuploadpack = ./evil\n',
     '[remote "o"]\n\turl = ext::./evil\n',
     '[url "ext::./evil "]\n\tinsteadOf = https://\n',
     '[submodule "s"]\n\tupdate = !./evil\n'],
)  # fmt: skip
def test_odd_spellings_are_found(repository: Path, text: str) -> None:
    with (repository / ".git" / "config").open("a") as file:
        file.write(text)
    assert runs_programs(repository) is not None


def test_a_byte_order_mark_hides_nothing(repository: Path) -> None:
    config = repository / ".git" / "config"
    config.write_bytes(b"\xef\xbb\xbf[core]\n\tfsmonitor = ./evil\n" + config.read_bytes())
    assert runs_programs(repository) is not None


def test_a_git_folder_that_git_skips_does_not_hide_the_outer_one(repository: Path) -> None:
    configure(repository, "core.fsmonitor=./evil")
    fake = repository / "sub" / ".git"
    fake.mkdir(parents=True)
    (fake / "HEAD").write_text("ref: refs/heads/main\n")
    assert runs_programs(repository / "sub") == "its configuration sets core.fsmonitor"


def test_a_gitdir_with_a_trailing_blank_leads_to_the_name_with_the_blank(tmp_path: Path) -> None:
    for name in ("good", "good "):
        subprocess.run(["git", "init", "-q", str(tmp_path / name)], check=True)
    configure(tmp_path / "good ", "core.fsmonitor=./evil")
    (tmp_path / "sub").mkdir()
    (tmp_path / "good /.git").rename(tmp_path / "repository ")
    (tmp_path / "good/.git").rename(tmp_path / "repository")
    (tmp_path / "sub" / ".git").write_text(f"gitdir: {tmp_path}/repository \n")
    assert runs_programs(tmp_path / "sub") == "its configuration sets core.fsmonitor"


def test_a_changed_configuration_is_read_again(repository: Path) -> None:
    assert runs_programs(repository) is None
    configure(repository, "core.fsmonitor=./evil")
    assert runs_programs(repository) is not None
    configure(repository, "core.fsmonitor=false")
    assert runs_programs(repository) is None


def test_an_unchanged_repository_is_judged_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "below").mkdir()
    found = [runs_programs(folder) for folder in (repository, repository / "below")]
    with monkeypatch.context() as patch:
        for name in ("run_git", "read_bounded", "read_regular", "list_settings", "first_dangerous"):
            patch.setattr(git_config, name, lambda *_, name=name: pytest.fail(f"called {name}"))
        assert [runs_programs(folder) for folder in (repository, repository / "below")] == found == [None, None]
    (repository / ".git" / "index").write_bytes(b"link")
    assert "submodules" in (runs_programs(repository) or "")
    inner = repository / "below" / ".git"
    subprocess.run(["git", "init", "-q", str(inner.parent)], check=True)
    configure(inner.parent, "core.fsmonitor=./evil")
    assert runs_programs(inner.parent) == "its configuration sets core.fsmonitor"


def test_a_work_tree_that_no_longer_points_back_is_judged_again(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    subprocess.run(["git", "init", "-q", "--separate-git-dir", str(tmp_path / "store"), str(tree)], check=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").write_text(f"gitdir: {tmp_path}/store\n")
    configure(tree, f"core.worktree={tmp_path}/other")
    assert runs_programs(tree) is None
    (tmp_path / "other" / ".git").unlink()
    assert "core.worktree" in (runs_programs(tree) or "")


def test_a_repository_that_git_no_longer_accepts_is_judged_again(repository: Path, tmp_path: Path) -> None:
    configure(repository, "core.fsmonitor=./evil")
    store, inner = tmp_path / "store", repository / "sub" / ".git"
    subprocess.run(["git", "init", "-q", "--bare", str(store)], check=True)
    subprocess.run(["git", "-C", str(store), "config", "--unset", "core.bare"], check=True)
    inner.mkdir(parents=True)
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "commondir").write_text(str(store))
    assert runs_programs(inner.parent) is None
    (store / "objects").rename(tmp_path / "objects")
    assert runs_programs(inner.parent) == "its configuration sets core.fsmonitor"


def test_nothing_in_the_repository_is_run_or_waited_for(repository: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (repository / ".git" / "config").write_text(
        f"[include]\n\tpath = {tmp_path}/pipe\n[core]\n\tfsmonitor = touch {tmp_path}/ran\n"
    )
    assert runs_programs(repository) is not None
    (repository / ".git" / "config").write_text("[core]\n\tbare = false\n")
    (repository / ".git" / "HEAD").unlink()
    os.mkfifo(repository / ".git" / "HEAD")
    assert runs_programs(repository) is not None
    assert not (tmp_path / "ran").exists()


def test_a_git_inside_the_working_directory_is_never_asked(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = repository / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {repository}/ran\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert runs_programs(repository, (str(repository),)) is None
    assert not (repository / "ran").exists()


def test_unreadable_configuration_counts_as_dangerous(repository: Path) -> None:
    config = repository / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert runs_programs(repository) is not None


def test_linked_worktrees_and_submodules_are_followed(repository: Path, tmp_path: Path) -> None:
    subprocess.run(
        ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty",
         "-m", "x"], check=True,
    )  # fmt: skip
    tree = tmp_path / "tree"
    subprocess.run(["git", "-C", str(repository), "worktree", "add", "-q", str(tree)], check=True)
    assert runs_programs(tree) is None
    configure(repository, "core.fsmonitor=./evil")
    assert runs_programs(tree) is not None


def test_git_asks_in_an_untrusted_repository_that_runs_programs(repository: Path) -> None:
    from agentcli.core.permission import Need
    from agentcli.permissions.policy import Policy

    def behavior(command: str, *, trusted: bool) -> str:
        policy = Policy(search_path="/usr/bin:/bin", trusted=trusted)
        need = Need("execute", command)
        return policy.decide("Bash", {"command": command}, (need,), repository, (repository,)).behavior

    assert behavior("git status", trusted=False) == "allow"
    configure(repository, "core.fsmonitor=./evil")
    assert behavior("git status", trusted=False) == "ask"
    assert behavior("git -C . diff", trusted=False) == "ask"
    assert behavior("cd . && git log", trusted=False) == "ask"
    assert behavior("ls", trusted=False) == "allow"
    assert behavior("git status", trusted=True) == "allow"


def test_submodules_count_whatever_they_configure(repository: Path) -> None:
    inner = repository / "inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    configure(inner, "user.name=t", "user.email=t@example.org")
    subprocess.run(["git", "-C", str(inner), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    # A repository beside the files is not looked into, only what the index names.
    assert runs_programs(repository) is None
    subprocess.run(["git", "-C", str(repository), "add", "inner"], check=True, capture_output=True)
    assert "submodules" in (runs_programs(repository) or "")


def test_an_index_that_is_not_a_file_counts_as_dangerous(repository: Path) -> None:
    os.mkfifo(repository / ".git" / "index")
    assert "index cannot be read" in (runs_programs(repository) or "")


def test_hooks_are_searched_in_all_folders_up_to_the_root_however_it_is_written(repository: Path) -> None:
    configure(repository, "core.hooksPath=hooks")
    assert hooks_folders([repository]) == (str(repository / "hooks"),)
    assert hooks_folders(["//missing/project", "/missing/project", "/", "//", "missing"]) == ()
