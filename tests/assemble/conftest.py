from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.permissions.sandbox.box import ability_or_skip
from tests.support.contained import Project

_HOME = Path.home()


@pytest.fixture
def contained() -> Iterator[Project]:
    """Outside of the system's temp folder, as most projects are: what is in there has a meaning of its own."""
    ability_or_skip()
    with TemporaryDirectory(dir=_HOME, prefix=".agentcli-test-") as name:
        yield Project.make(Path(name).resolve())
