"""A session started in the home folder: places of credentials stay closed to every tool without an answer."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio
SECRET = "the-key-itself"


@pytest.mark.parametrize("sandbox", ["off", "on"])
async def test_no_tool_shows_credentials_unasked_in_a_session_in_the_home_folder(
    program: Program, sandbox: str
) -> None:
    program.work = program.home
    (program.home / ".ssh").mkdir()
    (program.home / ".ssh" / "id_rsa").write_text(f"{SECRET}\n", encoding="utf-8")
    (program.home / "notes.txt").write_text("the-key is elsewhere\n", encoding="utf-8")
    calls = [
        call("Read", file_path=str(program.home / ".ssh" / "id_rsa")),
        call("Grep", pattern="the-key", output_mode="content"),
        call("Glob", pattern="**/id_*"),
        call("Bash", command="cat .ssh/id_rsa", description="Look"),
        call("Bash", command="grep -r the-key .", description="Look"),
        call("Write", file_path=str(program.home / ".ssh" / "authorized_keys"), content="mine\n"),
    ]
    async with LoopbackServer(*(reply(each) for each in calls), reply(say("done"))) as server:
        program.talk_to(server.url)
        await program.run("-p", "look", "--permission-mode", "acceptEdits", "--sandbox", sandbox)
        sent = json.dumps(server.requests[-1].body)
    assert SECRET not in sent
    assert "id_rsa:1" not in sent
    assert "the-key is elsewhere" in sent
    assert not (program.home / ".ssh" / "authorized_keys").exists()
