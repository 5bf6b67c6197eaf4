"""Writes that make or change a repository without a `.git` in their path ask, in every mode but bypass."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.policy import Policy


def behavior(path: Path, root: Path, mode: PermissionMode = PermissionMode.ACCEPT_EDITS) -> str:
    return Policy(mode=mode).decide("Write", {}, (Need("write", str(path)),), root, (root,)).behavior


@pytest.mark.parametrize("last", ["HEAD", "refs/heads/main", "objects/info/packs"])
def test_the_write_that_completes_a_bare_repository_asks(tmp_path: Path, last: str) -> None:
    docs = tmp_path / "docs"
    for name in ("HEAD", "refs/heads/main", "objects/info/packs"):
        if name != last:
            assert behavior(docs / name, tmp_path) == "allow"
            (docs / name).parent.mkdir(parents=True, exist_ok=True)
            (docs / name).touch()
    assert behavior(docs / last, tmp_path) == "ask"
    assert behavior(docs / last, tmp_path, PermissionMode.BYPASS) == "allow"


@pytest.mark.parametrize("name", ["config", "config.worktree", "commondir", "hooks/pre-commit", "info/attributes"])
def test_a_write_into_a_bare_repository_asks(tmp_path: Path, name: str) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "store")], check=True)
    assert behavior(tmp_path / "store" / name, tmp_path) == "ask"
    assert behavior(tmp_path / "other" / name, tmp_path) == "allow"
    assert behavior(tmp_path / "store" / "notes.md", tmp_path) == "allow"


def test_a_folder_that_points_to_a_repository_elsewhere_asks(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "HEAD").touch()
    assert behavior(tmp_path / "docs" / "commondir", tmp_path) == "ask"


def test_the_folder_that_the_configuration_names_for_hooks_asks(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert behavior(tmp_path / "scripts" / "git" / "pre-commit", tmp_path) == "allow"
    subprocess.run(["git", "-C", str(tmp_path), "config", "core.hooksPath", "scripts/git"], check=True)
    assert behavior(tmp_path / "scripts" / "git" / "pre-commit", tmp_path) == "ask"
    assert behavior(tmp_path / "scripts" / "build", tmp_path) == "allow"


def test_a_nested_repository_asks(tmp_path: Path) -> None:
    for name in (".git/config", ".git", ".gitmodules"):
        assert behavior(tmp_path / "nested" / name, tmp_path) == "ask"
    assert behavior(tmp_path / "nested" / ".gitattributes", tmp_path) == "allow"
