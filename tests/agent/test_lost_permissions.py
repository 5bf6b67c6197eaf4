"""A resumed session says which permission mode and session rules of an earlier process are not active any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core import events as ev
from agentcli.core.permission import Answer, PermissionMode
from tests.support.assembled import Assembled
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


def always(event: ev.PermissionRequested) -> Answer:
    if event.name == "Bash":
        return Answer("allow", rules=("Bash(touch a)",), save_to="session")
    return Answer("allow", mode=PermissionMode.ACCEPT_EDITS)


async def notices(project: Path, **options: object) -> list[str]:
    async with Assembled(project, [], options=options) as session:
        return [notice.text for notice in session.engine.take_notices() if notice.code == "resumed_rights"]


async def test_a_lost_mode_and_lost_rules_are_one_line_on_resume(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    steps = [reply(call("Bash", command="touch a")), reply(call("Write", file_path="b", content="x\n")), "Done."]
    async with Assembled(project, steps, always) as session:
        await session.run()
        name = session.engine.session_id
    assert await notices(project, resume=name) == [
        ("Not restored from the earlier session: mode acceptEdits and 1 session rule. The mode is now default.")
    ]
    kept = await notices(project, resume=name, permission_mode=PermissionMode.ACCEPT_EDITS)
    assert kept == ["Not restored from the earlier session: 1 session rule. The mode is now acceptEdits."]
    assert await notices(project) == []
    assert await notices(project, resume=name, interactive=False) == []
