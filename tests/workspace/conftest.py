"""Fixtures for tests of undo."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.workspace.folders import Work, working


@pytest.fixture
async def work(project: Path, tmp_path: Path) -> AsyncIterator[Work]:
    """A session in the folder of the fixture `project`."""
    async with working(tmp_path / "state", project) as found:
        yield found
