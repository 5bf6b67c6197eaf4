"""The goals for questions, on the calls of one hundred sessions (see `tests.bench.questions`)."""

from __future__ import annotations

import pytest

from agentcli.core.permission import PermissionMode
from tests.bench.questions import GOALS, asked
from tests.permissions.sandbox.box import ability_or_skip


@pytest.mark.parametrize("mode", GOALS)
def test_no_looking_call_asks_and_the_others_stay_within_the_goal(mode: PermissionMode) -> None:
    if mode is PermissionMode.AUTO:
        ability_or_skip()
    found = asked(mode)
    assert [call.subject for call in found.once if call.only_looks] == []
    goal = GOALS[mode]
    assert goal is None or 100 * len(found.always) / found.calls <= goal
