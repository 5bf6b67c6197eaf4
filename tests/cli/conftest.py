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
