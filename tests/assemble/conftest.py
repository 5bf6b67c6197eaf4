from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentcli.assemble import sessions
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
