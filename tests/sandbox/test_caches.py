"""Caches inside the sandbox: writable, shared by the worktrees of a repository and not beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.sandbox.caches import cache_folder
from tests.sandbox.box import Box

pytestmark = pytest.mark.anyio


async def test_the_cache_folder_of_the_home_is_writable_and_the_users_own_stays_as_it_is(box: Box) -> None:
    own = box.home / ".cache"
    (own / "ms-playwright").mkdir(parents=True)
    (own / "ms-playwright" / "browser").write_text("there\n")
    (own / "tool").mkdir()
    (own / "tool" / "index").write_text("the user's")
    text = await box.text(
        "mkdir -p ~/.cache/tool && echo mine > ~/.cache/tool/index; cat ~/.cache/ms-playwright/browser;"
        " touch ~/.cache/ms-playwright/x 2>&1 | grep -c Read-only"
    )
    assert text.split() == ["there", "1"]
    assert (own / "tool" / "index").read_text() == "the user's"
    assert await box.text("cat ~/.cache/tool/index") == "mine"


async def test_without_a_cache_folder_tools_are_given_one(box: Box) -> None:
    assert (await box.text("mkdir -p $XDG_CACHE_HOME/x && echo ok")) == "ok"


def test_worktrees_share_caches_and_another_clone_does_not(box: Box, tmp_path: Path) -> None:
    box.git("init", "-q")
    box.git("commit", "-q", "--allow-empty", "-m", "first")
    worktree, clone = tmp_path / "worktree", tmp_path / "clone"
    box.git("worktree", "add", "-q", str(worktree))
    box.git("clone", "-q", str(box.project), str(clone))
    folders = [cache_folder(box.with_rules(working_dirs=(folder,)).rules) for folder in (box.project, worktree, clone)]
    assert folders[0] == folders[1] != folders[2]


def test_a_folder_that_only_claims_to_be_a_worktree_has_its_own_caches(box: Box, tmp_path: Path) -> None:
    box.git("init", "-q")
    claiming = tmp_path / "claiming"
    claiming.mkdir()
    (claiming / ".git").write_text(f"gitdir: {box.project}/.git\n")
    folders = [cache_folder(box.with_rules(working_dirs=(folder,)).rules) for folder in (box.project, claiming)]
    assert folders[0] != folders[1]
