from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.box import Box, ability_or_skip


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box.make(tmp_path.resolve(), ability_or_skip())
