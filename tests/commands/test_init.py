"""/init: the model writes AGENTS.md, and the user sees the change first in every mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.messages import TYPED
from agentcli.core.permission import Answer, PermissionMode
from tests.support.fakes import only
from tests.support.scripts import call, provider_on, reply, transport_for

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
async def test_the_change_is_shown_before_it_is_made(tmp_path: Path, mode: PermissionMode) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "Makefile").write_text("check:\n")
    (project / ".cursorrules").write_text("x")
    transport = transport_for(reply(call("Write", file_path="AGENTS.md", content="make check\n")), "Done.", "Ok.")
    options = Options(
        cwd=project,
        environ={"HOME": str(tmp_path)},
        sandbox="off",
        interactive=True,
        permission_mode=mode,
        provider=provider_on(transport),
    )
    async with build_engine(options) as engine:
        events = []
        async for event in run_command(engine, "init", "be brief"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                assert event.display["kind"] == "diff"
                origin = f"rule Edit {project}/AGENTS.md from /init, which always asks first"
                assert event.reason == f"Needs approval: it matches {origin}"
                assert not (project / "AGENTS.md").exists()
                engine.answer(event.request_id, Answer("allow"))
        assert (project / "AGENTS.md").read_text() == "make check\n"
        only(events, ev.PermissionRequested)
        assert engine.messages[0].meta[TYPED] == "/init be brief"
        assert engine.permissions.entries() == []
    sent = str(transport.requests[0]["messages"])
    for part in ("Makefile", ".cursorrules", "The user adds: be brief"):
        assert part in sent


async def test_without_a_user_the_mode_decides(tmp_path: Path) -> None:
    transport = transport_for(reply(call("Write", file_path="AGENTS.md", content="x\n")), "Done.")
    options = Options(
        cwd=tmp_path,
        environ={"HOME": str(tmp_path)},
        sandbox="off",
        permission_mode=PermissionMode.ACCEPT_EDITS,
        provider=provider_on(transport),
    )
    async with build_engine(options) as engine:
        async for _event in run_command(engine, "init", ""):
            pass
    assert (tmp_path / "AGENTS.md").exists()
