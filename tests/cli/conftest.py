"""A user's folders for tests of the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has an empty `home` and an empty `work`, which is the current folder; no variable says anything else."""
    for name in os.environ:
        if name.startswith(("ANTHROPIC", "AGENTCLI", "_AGENTCLI", "XDG", "CLAUDE")):
            monkeypatch.delenv(name)
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder, with a repository `project` in it, which is the current folder."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "AGENTCLI_CONFIG_DIR", "AGENTCLI_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
