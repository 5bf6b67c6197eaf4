from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.assemble import sessions
from agentcli.core.messages import Json
from tests.sandbox.box import ability_or_skip
from tests.support.contained import Project
from tests.support.outside_temp import folder_outside_temp


@pytest.fixture(scope="session")
def first_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.make(tmp_path_factory.mktemp("contained") / "first")


@pytest.fixture
def contained(first_project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Outside of the system's temp folder, as most projects are: what is in there has a meaning of its own."""
    ability_or_skip()
    # The status of the repository is not in their system prompts: it takes three runs of git for each session.
    monkeypatch.setattr(sessions, "git_branch", lambda _cwd: "")
    with folder_outside_temp() as folder:
        yield first_project.copied(folder / "copy")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository beside an empty home folder."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return project


def environ(project: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(project.parent / "home")}


def write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
