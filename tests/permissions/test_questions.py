"""The goals for questions, on the calls of one hundred sessions (see `tests.bench.questions`)."""

from __future__ import annotations

import pytest

from agentcli.core.permission import PermissionMode
from tests.bench.questions import GOALS, asked
from tests.sandbox.box import ability_or_skip


@pytest.mark.parametrize("mode", GOALS)
def test_no_read_only_call_asks_and_the_number_of_other_questions_is_limited(mode: PermissionMode) -> None:
    if mode is PermissionMode.AUTO:
        ability_or_skip()
    goal = GOALS[mode]
    found = asked(mode, answered_always=goal is not None)
    assert [call.subject for call in found.once if call.only_looks] == []
    assert goal is None or 100 * len(found.always) / found.calls <= goal
