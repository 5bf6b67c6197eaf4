from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


@pytest.fixture(scope="session")
def shared_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that change nothing in it."""
    return make_tree(tmp_path_factory.mktemp("tree"))


def make_tree(tmp_path: Path) -> Path:
    """A project with what the shell lines name, and ways out of it."""
    project = tmp_path / "project"
    for folder in ("src", "tests", "dash", ".git"):
        (project / folder).mkdir(parents=True)
    for name in (
        *("a.txt", "b.txt", "a.py", "b.py", "README.md", "src/app.py", "src/abc.py", "dash/-o", "with blank.txt"),
    ):
        (project / name).write_text("a\nfoo 1\n")
    (project / "with blank.txt").write_text("a\nfoo 1\n")
    (tmp_path / "outside.txt").write_text("outside")
    (tmp_path / "elsewhere").mkdir()
    (project / "link").symlink_to(tmp_path / "outside.txt")
    (project / "folder").symlink_to(tmp_path)
    (project / "linked").symlink_to(tmp_path / "elsewhere")
    return project
