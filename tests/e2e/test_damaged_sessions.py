"""Session files with damaged, foreign and newer lines: the work goes on, and every command that looks back copes."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

from agentcli.core.messages import Json
from tests.e2e.program import Program
from tests.e2e.test_unsaved import session_file
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

SANDBOX = () if shutil.which("bwrap") else ("--sandbox", "off")
FOREIGN: list[Json] = [
    {"type": "from-the-future", "message": 5},
    {"type": "rewind", "uuid": 7, "before": ["x"]},
    {"type": "assistant", "message": {"content": "text"}, "messageId": None},
    {"type": "event", "event": {"event": "usage_reported", "usage": {"input_tokens": "many"}, "model": 3}},
    {"type": "call", "toolUseId": {}, "state": []},
    {"type": "request-front", "front": {"model": None}},
]
JUNK = (b"{broken", b"\0" * 200, b"\xff\xfe\xfa", b"[1, 2]", b'"text"', b"", b'{"type": ' * 50_000)
LOOKING_BACK: dict[tuple[str, ...], str] = {
    ("sessions", "list"): "messages  tiger",
    ("sessions", "show", "tiger"): "◆ Second answer.",
    ("sessions", "show", "tiger", "--json"): '"answer": "Second answer."',
    ("sessions", "search", "second"): "› second",
    ("sessions", "export", "tiger", "--format", "json", "-o", "-"): "+stripes",
    ("sessions", "export", "tiger", "--format", "html", "-o", "-"): "Second answer.",
    ("trace", "tiger"): "Prompt 2: second\ncompleted",
    ("trace", "tiger", "--prompt", "1", "--step", "1"): "call Write",
    ("trace", "tiger", "--export", "-"): '"gen_ai.conversation.id"',
    ("replay", "tiger", "--verify"): "First difference, at line ",
    ("blame", "tiger.txt"): "“tiger”",
    ("bisect", *SANDBOX, "! grep -q stripes tiger.txt"): "Call 1 of 1, Write tiger.txt, in prompt 1: “tiger”",
}


async def record_session(program: Program) -> Path:
    write = reply(call("Write", file_path="tiger.txt", content="stripes\n"))
    async with LoopbackServer(write, "Written.", "Second answer.") as server:
        program.talk_to(server.url)
        for words in (("tiger",), ("-c", "second")):
            ended = await program.run("-p", *words, "--permission-mode", "acceptEdits")
            assert ended.code == 0, ended.err
    return session_file(program.home)


def damage(path: Path) -> None:
    """Put foreign lines and junk between the records, and let each have an earlier time than the one before it."""
    added = [*JUNK, *(json.dumps(one).encode() for one in FOREIGN)]
    lines: list[bytes] = []
    for number, line in enumerate(path.read_bytes().splitlines()):
        record = json.loads(line)
        if "timestamp" in record:
            record["timestamp"] = f"2026-03-01T10:{59 - number % 60:02}:00.000Z"
        lines += [json.dumps(record).encode(), added[number % len(added)]]
    path.write_bytes(b"\n".join(lines) + b"\n")


async def test_work_goes_on_in_a_damaged_session_and_its_lines_stay(program: Program) -> None:
    path = await record_session(program)
    damage(path)
    before = path.read_bytes()
    async with LoopbackServer("Third answer.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "-c", "third")
        assert (ended.code, ended.out) == (0, "Third answer.\n")
        sent = [block for message in server.bodies[0]["messages"] for block in message["content"]]
    texts = [block["text"] for block in sent if block["type"] == "text"]
    assert texts == ["tiger", "Written.", "second", "Second answer.", "third"], "in the order of the file"
    assert [block["type"] for block in sent if block["type"].startswith("tool")] == ["tool_use", "tool_result"]
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("command", LOOKING_BACK, ids=" ".join)
async def test_what_looks_back_copes_with_a_damaged_session(program: Program, command: tuple[str, ...]) -> None:
    path = await record_session(program)
    damage(path)
    before = path.read_bytes()
    ended = await program.run(*command)
    assert LOOKING_BACK[command] in ended.out, ended.out + ended.err
    assert ended.code == (command[0] == "replay")
    assert path.read_bytes() == before


async def test_a_session_of_a_newer_version_is_shown_and_copied_but_not_continued(program: Program) -> None:
    path = await record_session(program)
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))
    before = path.read_bytes()
    assert "❯ second" in (await program.run("sessions", "show", "tiger")).out
    async with LoopbackServer("From the copy.") as server:
        program.talk_to(server.url)
        refused = await program.run("-p", "-c", "third")
        assert (refused.code, "--fork-session" in refused.err) == (1, True)
        copied = await program.run("-p", "-c", "--fork-session", "third")
        assert copied.out == "From the copy.\n"
        assert "Second answer." in str(server.bodies[0]["messages"])
    assert path.read_bytes() == before


async def test_sessions_are_for_the_user_alone(program: Program) -> None:
    path = await record_session(program)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    state = program.home / ".local" / "state" / "agentcli"
    for one in (state, state / "snapshots", state / "sessions", *(state / "sessions").rglob("*")):
        assert stat.S_IMODE(one.stat().st_mode) & 0o077 == 0, one
