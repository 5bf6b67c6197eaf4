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
    assert "1 file +2 −0" in first
    assert "◆ The file is there." in first
    assert "❯ And now?" in second
    record = json.loads((await program.run("sessions", "show", "zebra", "--json")).out)
    assert [prompt["files"] for prompt in record["prompts"]] == [1, 0]
    assert f"agentcli -r {record['session_id']}" in shown.out
    missing = await program.run("sessions", "show", "giraffe")
    assert (missing.code, "giraffe" in missing.err) == (1, True)


async def test_words_of_old_sessions_are_found_with_the_command_that_opens_them(program: Program) -> None:
    bash = call("Bash", command="echo giraffe-7")
    answers = ("It was the \x1b[31mslice\x1b[0m of the parser.", reply(bash), "Nothing.", "Not here.")
    async with LoopbackServer(*answers) as server:
        program.talk_to(server.url)
        for words in (("Why is the parser wrong?",), ("-c", "Say giraffe"), ("Something else",)):
            ended = await program.run("-p", *words, "--permission-mode", "bypassPermissions")
            assert ended.code == 0, ended.err
    found = await program.run("sessions", "search", "PARSER", "slic")
    assert found.code == 0, found.err
    assert "prompt 1" in found.out
    assert "◆ It was the slice of the parser." in found.out
    (line,) = (line for line in found.err.splitlines() if line.startswith("To open a session: "))
    session = line.rpartition(" ")[2]
    assert found.out.startswith(session)
    records = json.loads((await program.run("sessions", "search", "giraffe", "--json")).out)
    assert [(one["session_id"], one["prompt"], one["found_in"]) for one in records] == [(session, 2, "prompt")]
    command = json.loads((await program.run("sessions", "search", "echo giraffe", "--json")).out)
    assert [one["found_in"] for one in command] == ["call"]
    nothing = await program.run("sessions", "search", "elephant")
    assert (nothing.code, nothing.out) == (1, "")
    assert "--all searches those of all folders" in nothing.err
    (index,) = (program.home / ".cache/agentcli/sessions").glob("*.sqlite")
    index.write_bytes(b"garbage" * 1000)
    assert (await program.run("sessions", "search", "giraffe")).code == 0
    program.environ["AGENTCLI_CACHE_DIR"] = str(index)
    without = await program.run("sessions", "search", "giraffe")
    assert (without.code, "prompt 2" in without.out) == (0, True)
    assert "An index in memory was used instead" in without.err
