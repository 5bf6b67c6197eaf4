"""The permission mode and model of a session that is resumed and left again without a prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.permission import PermissionMode
from tests.support.assembled import Assembled

pytestmark = pytest.mark.anyio


async def test_a_mode_chosen_in_a_resumed_session_is_kept_without_a_prompt(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    async with Assembled(project, ["Hello."]) as a:
        await a.run("hi")
        session = a.engine.session_id
    async with Assembled(project, [], options={"resume": session, "permission_mode": None}) as b:
        b.engine.permissions.set_mode(PermissionMode.PLAN)
    async with Assembled(project, [], options={"resume": session, "permission_mode": None}) as c:
        assert c.engine.permissions.mode is PermissionMode.PLAN
    (path,) = tmp_path.rglob(f"{session}.jsonl")
    before = path.read_bytes()
    async with Assembled(project, [], options={"resume": session, "permission_mode": None}):
        pass
    assert path.read_bytes() == before, "a session that is only looked at stays as it is"


async def test_a_model_chosen_after_the_last_prompt_is_kept(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    async with Assembled(project, ["Hello."]) as a:
        await a.run("hi")
        session = a.engine.session_id
        a.engine.set_model("sonnet")
        a.engine.set_effort("low")
    async with Assembled(project, [], options={"resume": session}) as b:
        assert (b.engine.model, b.engine.effort) == ("claude-sonnet-5-5", "low")
