"""The table of edits, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.edits import CASES, Case, applied, exact
from tests.tools.running import context_in, text_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_an_edit_is_exact_to_the_byte(case: Case, tmp_path: Path) -> None:
    found, output, _seconds = await applied(case, context_in(tmp_path))
    assert exact(case, found, output), (text_of(output), found[:300])


def test_the_table_is_long_enough_and_its_names_are_unique() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)
