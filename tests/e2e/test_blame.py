"""`agentcli blame` and `/blame` on sessions of the real program."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram

pytestmark = pytest.mark.anyio

EDITING = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash")


async def record_session(program: Program) -> str:
    """Two prompts, and a change of the user between them. Returns the id of the session."""
    (program.work / "calc.py").write_text("one\ntwo\nthree\n")
    replies = [
        reply(call("Read", file_path="calc.py")),
        reply(call("Edit", file_path="calc.py", old_string="one", new_string="ONE")),
        reply("first done"),
        reply(call("Bash", command=r"printf 'four \033[2J\n' >> calc.py")),
        reply("second done"),
    ]
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "in capitals", *EDITING)).out == "first done\n"
        path = program.work / "calc.py"
        path.write_text(path.read_text().replace("two", "  two"))
        assert (await program.run("-p", "add\x1b[31m four", "-c", *EDITING)).out == "second done\n"
    record: str = json.loads((await program.run("sessions", "show", "capitals", "--json")).out)["session_id"]
    return record


async def test_every_line_is_shown_with_the_prompt_and_the_call_that_wrote_it(program: Program) -> None:
    session = await record_session(program)
    ended = await program.run("blame", "calc.py")
    assert (ended.code, ended.err) == (0, "")
    rows = ended.out.splitlines()
    mark = session[:8]
    assert [row.split("  ")[0] for row in rows[:4]] == [f"{mark}:1 #2", "you", "before", f"{mark}:2 #3"]
    assert "four ␛[2J" in rows[3]
    assert any(row.startswith("  “add four”, $0.") for row in rows)
    entry = next(row for row in rows if row.startswith(f"{mark}:1 #2  Call 2 of 3, Edit calc.py  "))
    assert "claude-opus" in entry
    assert "$0." in entry
    assert entry.endswith(": 1 line")
    assert "\x1b" not in ended.out
    found = json.loads((await program.run("blame", "calc.py:2-4", "--json")).out)
    assert [found["origins"][line["origin"]]["kind"] for line in found["lines"]] == ["user", "before", "call"]
    assert found["origins"][2]["call_id"].startswith("toolu_")
    missing = await program.run("blame", "nothing.py")
    assert (missing.code, missing.out) == (1, "")
    assert "nothing.py cannot be read: missing." in missing.err


async def test_on_a_terminal_rows_are_cut_to_its_width_and_coloured(program: Program) -> None:
    session = await record_session(program)
    async with TerminalProgram(program.work.parent, "blame", "calc.py", columns=60) as app:
        await app.wait_for("“add four”")
        assert await app.end() == 0
        assert next(row for row in app.screen if "ONE" in row).startswith(f"{session[:8]}:1 #2")
        assert f"\x1b[36m{session[:8]}:1 #2".encode() in app.raw


async def test_the_command_shows_lines_beside_the_prompt_and_the_diff_that_wrote_them(program: Program) -> None:
    session = await record_session(program)
    async with TerminalProgram(program.work.parent, columns=120) as app:
        await app.ready()
        await app.submit("/blame calc.py")
        await app.wait_for("Blame of calc.py")
        await app.wait_for("“in capitals”")
        assert "4 lines" in app.screen[0]
        assert next(row for row in app.screen if "1 │ ONE" in row).split("│")[1].split() == [
            "ONE",
            f"{session[:8]}:1",
            "#2",
        ]
        assert "Call 2 of 3, Edit calc.py" in app.text
        await app.press("down")
        await app.wait_for("you  changed by you")
        await app.press("up", "o")
        await app.wait_for("second done")
        await app.wait_for("❯ in capitals")
        assert await app.leave() == 0
    async with TerminalProgram(program.work.parent, "--plain", columns=120) as app:
        await app.wait_for("❯")
        await app.submit("/blame calc.py:4")
        await app.wait_for("“add four”")
        assert any(row.startswith(f"{session[:8]}:2 #3  ") and "4 │ four" in row for row in app.screen)
        assert await app.leave() == 0
