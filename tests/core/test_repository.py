"""Whose repository counts: the user's, root's, and that of the owner of the folder in which agentcli was started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.core.git import repository
from agentcli.core.git.repository import find_own_users, foreign_repository, repository_root


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    return inner


def test_the_innermost_repository_counts(inner: Path, tmp_path: Path) -> None:
    assert (repository_root(inner), foreign_repository(inner)) == (tmp_path, None)
    (inner.parent / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    assert repository_root(inner) == inner.parent


def test_one_of_another_user_counts_only_for_who_starts_in_its_root(
    inner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "find_own_users", lambda _folder: {os.geteuid() + 1})
    assert (repository_root(inner), foreign_repository(inner)) == (None, str(tmp_path))
    assert (repository_root(tmp_path), foreign_repository(tmp_path)) == (tmp_path, None)


def test_one_in_a_folder_for_everyone_counts_only_for_who_starts_in_it(inner: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert (repository_root(inner), foreign_repository(inner)) == (None, str(tmp_path))
    assert repository_root(tmp_path) == tmp_path


def test_with_sudo_the_files_of_the_calling_user_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_own_users(tmp_path) == {0, 1234, tmp_path.stat().st_uid}
    monkeypatch.setattr(os, "geteuid", lambda: 77)
    assert find_own_users(tmp_path) == {0, 77, tmp_path.stat().st_uid}
