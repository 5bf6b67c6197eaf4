"""`agentcli replay` on sessions of the real program: it does now what it did then, or says where not."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.record_sessions import FOLDER
from tests.support.scripts import call, fails, reply, think
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram

pytestmark = pytest.mark.anyio


async def record_session(program: Program) -> Path:
    """Two runs of the program, with edits, a command, a refused call and a retry."""
    (program.work / "AGENTS.md").write_text("Be kind.\n")
    (program.work / "calc.txt").write_text("one\ntwo\n")
    replies = [
        reply(think("Hm."), call("Read", file_path="calc.txt"), call("Glob", pattern="*.txt")),
        fails(529),
        reply(call("Edit", file_path="calc.txt", old_string="one", new_string="ONE")),
        reply("done"),
        reply(call("Bash", command="rm calc.txt")),
        reply("It stays."),
    ]
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        for words in (("-p", "Shout", "--permission-mode", "acceptEdits"), ("-c", "-p", "Delete it")):
            ended = await program.run(*words)
            assert ended.code == 0, ended.err
    [path] = (program.home / ".local/state/agentcli/sessions").glob("*/*.jsonl")
    return path


async def test_a_session_of_the_program_is_verified_offline(program: Program) -> None:
    path = await record_session(program)
    program.talk_to("http://127.0.0.1:9")
    before = (program.work / "calc.txt").read_bytes(), path.read_bytes()
    ended = await program.run("replay", "Shout", "--verify", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["difference"], found["other_front"]) == (0, None, {})
    assert found["events"]["identical"] == found["events"]["of"] > 20
    assert found["requests"]["identical"] == found["requests"]["of"] == 5
    assert ((program.work / "calc.txt").read_bytes(), path.read_bytes()) == before
    shown = await program.run("replay", str(path), "--verify")
    assert "Requests: 5 of 5 identical" in shown.out


async def test_a_changed_line_is_named_with_exit_code_1(program: Program) -> None:
    path = await record_session(program)
    broken = program.work / "broken.jsonl"
    broken.write_text(path.read_text().replace('"Delete it"', '"Keep it"'))
    bundle = program.work / "report.zip"
    with zipfile.ZipFile(bundle, "w") as file:
        file.write(broken, "session/broken.jsonl")
    for name in (broken, bundle):
        ended = await program.run("replay", str(name), "--verify")
        assert ended.code == 1
        assert "prompt 2 (“Keep it”), request 4" in ended.out
        assert "differs in the messages" in ended.out


async def test_a_bundle_for_a_bug_report_is_verified_too(program: Program) -> None:
    await record_session(program)
    exported = await program.run("sessions", "export", "Shout", "--format", "bundle", "-o", "report.zip")
    assert exported.code == 0, exported.err
    ended = await program.run("replay", "report.zip", "--verify", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["difference"]) == (0, None)
    assert found["requests"] == {"identical": 5, "of": 5}


async def test_other_instructions_are_tried_on_a_session(program: Program) -> None:
    await record_session(program)
    (program.work / "new.md").write_text("Be harsh.\n")
    ended = await program.run("replay", "Shout", "--with", "AGENTS.md=new.md")
    assert (ended.code, "+Be harsh." in ended.out, "-Be kind." in ended.out) == (1, True, True)
    same = await program.run("replay", "Shout", "--with", "AGENTS.md=AGENTS.md")
    assert (same.code, same.out) == (0, "No request differs: 5 requests compared.\n")
    wrong = await program.run("replay", "Shout", "--with", "CLAUDE.md=new.md")
    assert (wrong.code, "no instruction file CLAUDE.md" in wrong.err) == (2, True)
    wrong = await program.run("replay", "Shout", "--effort", "huge")
    assert (wrong.code, "--effort must be one of low" in wrong.err) == (2, True)


async def test_escape_stops_a_verification(program: Program) -> None:
    lines = (FOLDER / "plain_answers.jsonl").read_text().splitlines(keepends=True)
    second = [number for number, line in enumerate(lines) if '"origin":"prompt"' in line][1]
    (program.work / "slow.jsonl").write_text("".join([*lines[: second + 1], lines[-1]]))
    arguments = ("replay", "slow.jsonl", "--verify")
    async with TerminalProgram(program.work.parent, *arguments, url="http://127.0.0.1:9") as app:
        # It waits for some seconds for the second reply.
        await app.wait_for(f"Line {second} of {second + 2}. Esc stops.")
        assert app.text.count("Line") == 1
        await app.press("escape")
        await app.wait_for("Stopped.")
        assert await app.end() == 130
        assert "Events:" not in app.text


async def test_the_difference_begins_below_the_progress(program: Program) -> None:
    arguments = ("replay", str(FOLDER / "plain_answers.jsonl"), "--model", "haiku")
    async with TerminalProgram(program.work.parent, *arguments, url="http://127.0.0.1:9") as app:
        assert await app.end() == 1
        assert "\nRequest 1 differs, in prompt 1: model" in app.text


async def test_a_session_plays_in_the_app_and_the_terminal_is_as_before(program: Program) -> None:
    path = await record_session(program)
    before = path.read_bytes()
    arguments = ("replay", "Shout", "--speed", "50")
    async with TerminalProgram(program.work.parent, *arguments, url="http://127.0.0.1:9") as app:
        await app.wait_for("It stays.")
        await app.wait_for("at the end")
        assert "Delete it" in app.text
        await app.press("p")
        await app.wait_for("Prompts of this session")
        await app.press("escape")
        await app.wait_for("at the end")
        await app.press("escape")
        assert await app.end() == 0
    assert path.read_bytes() == before
    refused = await program.run("replay", "Shout")
    assert (refused.code, "needs a terminal" in refused.err) == (2, True)
