"""Sessions of Claude Code on this machine are listed, imported once, shown, and continued by a request that works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.base import project_key
from tests.e2e.program import Program
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

FIXTURE = Path(__file__).parents[1] / "data" / "claude_code.jsonl"
ID = "0c1a0de0-1111-4222-8333-444455556666"
TITLE = "Nested quotes in the parser"


def put(program: Program, *, lines: int | None = None, folder: str = ".claude") -> Path:
    """The synthetic session as one of the program's folder, cut to so many lines."""
    path = program.home / folder / "projects" / project_key(program.work) / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(FIXTURE.read_text().splitlines(keepends=True)[:lines]))
    return path


def kinds(messages: list[Any]) -> list[str]:
    return [f"{message['role']}: {' '.join(block['type'] for block in message['content'])}" for message in messages]


async def test_sessions_are_listed_imported_once_and_their_files_stay_as_they_are(program: Program) -> None:
    path = put(program)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    listed = await program.run("sessions", "import", "--list")
    assert (listed.code, f"19 messages  {TITLE}" in listed.out) == (0, True), listed
    assert (await program.run("sessions", "list")).out == ""
    (record,) = json.loads((await program.run("sessions", "import", "--list", "--json")).out)
    assert (record["session_id"], record["title"], record["cwd"]) == (ID, TITLE, "/work/zoo")
    missing = await program.run("sessions", "import", "giraffe")
    assert (missing.code, "has no such sessions of this folder" in missing.err) == (0, True)
    imported = await program.run("sessions", "import", "nested")
    assert (imported.code, "Imported 1 session." in imported.out) == (0, True), imported
    again = await program.run("sessions", "import")
    assert (again.code, again.out, "that are not imported yet" in again.err) == (0, "", True), again
    (stored,) = json.loads((await program.run("sessions", "list", "--json")).out)
    assert (stored["session_id"], stored["title"], stored["cwd"]) == (ID, TITLE, str(program.work))
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


async def test_an_imported_session_is_shown_and_continued_in_the_app(tmp_path: Path) -> None:
    program = Program(tmp_path)
    put(program)
    assert (await program.run("sessions", "import")).code == 0
    async with app_with(tmp_path, "Two things are left.", arguments=["-r", ID], rows=60) as (app, server):
        await app.wait_for("One more look.")
        for shown in ("❯ Fix it, please.", "The lexer drops the second quote.", "/review lexer.py", "❯ What is left?"):
            assert shown in app.text
        assert "Secret thoughts" not in app.text
        await app.submit("so what?")
        await app.wait_for("Two things are left.")
        assert await app.leave() == 0
        (body,) = server.bodies
    assert kinds(body["messages"])[-3:] == ["user: text text", "assistant: text tool_use", "user: tool_result text"]
    sent = json.dumps(body)
    assert "The parser was fixed." in sent
    assert "Why does the parser fail" not in sent, "that was before the compaction"


async def test_the_request_has_the_whole_history_of_a_session_without_a_compaction(program: Program) -> None:
    put(program, lines=21)
    assert (await program.run("sessions", "import")).code == 0
    async with LoopbackServer("Continued.") as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "-c", "go on")).out == "Continued.\n"
        messages = server.bodies[0]["messages"]
    assert "Why does the parser fail on nested quotes?" in json.dumps(messages[0])
    assert [kind for kind in kinds(messages) if "tool" in kind] == [
        "assistant: text tool_use tool_use",
        "user: tool_result tool_result",
        "assistant: tool_use",
        "user: tool_result",
    ]
    assert "thinking" not in json.dumps(messages)


async def test_sessions_of_other_folders_and_places_are_imported_where_they_were(program: Program) -> None:
    path = put(program, folder="backup")
    path.parent.rename(path.parent.with_name("-work-zoo"))
    program.environ["CLAUDE_CONFIG_DIR"] = str(program.home / "backup")
    none = await program.run("sessions", "import")
    assert (none.out, "--all includes all" in none.err) == ("", True)
    assert (await program.run("sessions", "import", "--all")).code == 0
    (stored,) = json.loads((await program.run("sessions", "list", "--all", "--json")).out)
    assert stored["cwd"] == "/work/zoo"
    assert "-work-zoo" in stored["path"]
