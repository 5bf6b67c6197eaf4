"""`agentcli sessions`: what a user sees of sessions that the program itself has written."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


async def test_a_session_is_shown_with_what_each_prompt_cost_and_changed(program: Program) -> None:
    write = call("Write", file_path="zebra.txt", content="one\ntwo\n")
    async with LoopbackServer(reply(write), "The file is there.", "Nothing else to do.") as server:
        program.talk_to(server.url)
        for words in (("Write the zebra file",), ("-c", "And now?")):
            assert (await program.run("-p", *words, "--permission-mode", "acceptEdits")).code == 0
    shown = await program.run("sessions", "show", "zebra")
    assert shown.code == 0, shown.err
    first, second = shown.out.split("\n  2  ")
    assert "1 change +2 -0" in first
    assert "◆ The file is there." in first
    assert "❯ And now?" in second
    record = json.loads((await program.run("sessions", "show", "zebra", "--json")).out)
    assert [prompt["changes"] for prompt in record["prompts"]] == [1, 0]
    assert f"agentcli -r {record['session_id']}" in shown.out
    missing = await program.run("sessions", "show", "giraffe")
    assert (missing.code, "giraffe" in missing.err) == (1, True)
