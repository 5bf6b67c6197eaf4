"""`agentcli sessions rename`, `delete` and `prune` on sessions that the program itself has written."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, fault, reply, say
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio


def state_of(home: Path) -> Path:
    return home / ".local" / "state" / "agentcli"


def session_files(home: Path) -> list[Path]:
    return sorted((state_of(home) / "sessions").glob("*/*.jsonl"))


def unmarked(value: Any) -> Any:
    """Without cache breakpoints, which move on with each request."""
    if isinstance(value, list):
        return [unmarked(one) for one in value]
    if isinstance(value, dict):
        return {name: unmarked(one) for name, one in value.items() if name != "cache_control"}
    return value


async def listed(program: Program) -> list[str]:
    ended = await program.run("sessions", "list", "--json")
    return [record["title"] or record["first_prompt"] for record in json.loads(ended.out)]


async def with_sessions(program: Program, *prompts: str) -> None:
    async with LoopbackServer(*(["Done."] * len(prompts))) as server:
        program.talk_to(server.url)
        for prompt in prompts:
            assert (await program.run("-p", prompt)).code == 0


async def test_a_session_gets_a_name_and_is_resumed_by_it(program: Program) -> None:
    await with_sessions(program, "fix the zebra")
    renamed = await program.run("sessions", "rename", "zebra", "stripes work")
    assert (renamed.code, "is now called stripes work." in renamed.out) == (0, True)
    assert await listed(program) == ["stripes work"]
    async with LoopbackServer("Going on.") as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "-r", "stripes work", "and now?")).out == "Going on.\n"
        assert "fix the zebra" in json.dumps(server.bodies[-1]["messages"])
    assert (await program.run("sessions", "rename", "stripes", " \n")).code == 2


async def test_a_deleted_session_leaves_nothing_and_what_was_freed_is_shown(program: Program) -> None:
    write = call("Write", file_path="zebra.txt", content="stripes\n")
    async with LoopbackServer(reply(write), "Written.") as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "Write the zebra", "--permission-mode", "acceptEdits")).code == 0
    await with_sessions(program, "count the lions")
    assert (await program.run("sessions", "search", "stripes")).code == 0
    gone = next(path.stem for path in session_files(program.home) if "Write the zebra" in path.read_text())
    assert list(state_of(program.home).rglob(f"*{gone}*"))
    refused = await program.run("sessions", "delete", "zebra")
    assert (refused.code, "use --yes" in refused.err) == (2, True)
    deleted = await program.run("sessions", "delete", "zebra", "--yes")
    assert (deleted.code, deleted.out.startswith("Deleted 1 session: ")) == (0, True), deleted
    assert list(state_of(program.home).rglob(f"*{gone}*")) == []
    (index,) = program.home.rglob("*.sqlite")
    with closing(sqlite3.connect(index)) as db:
        assert db.execute("SELECT count(*) FROM files").fetchone() == (1,)
    assert await listed(program) == ["count the lions"]
    assert (program.work / "zebra.txt").read_text() == "stripes\n"


async def test_deleting_asks_on_a_terminal(tmp_path: Path) -> None:
    program = Program(tmp_path)
    await with_sessions(program, "fix the zebra")
    for answer, left in (("n", 1), ("y", 0)):
        async with TerminalProgram(tmp_path, "sessions", "delete", "zebra") as terminal:
            await terminal.wait_for("with what belongs to them? This cannot be undone.")
            assert "fix the zebra" in terminal.text
            await terminal.type(f"{answer}\r")
            assert await terminal.end() == 0
        assert len(session_files(program.home)) == left


async def test_a_session_that_is_open_is_not_deleted(tmp_path: Path) -> None:
    program = Program(tmp_path)
    async with app_with(tmp_path, reply(say("It begins.\n\n"), fault("stall")), arguments=["fix the zebra"]) as (
        app,
        _,
    ):
        await app.wait_for("It begins.")
        refused = await program.run("sessions", "delete", "zebra", "--yes")
        assert (refused.code, "is open. Close it first." in refused.err) == (1, True)
        named = await program.run("sessions", "rename", "zebra", "x")
        assert (named.code, "is open. Close it first." in named.err) == (1, True)
        pruned = await program.run("sessions", "prune", "--days", "0", "--yes")
        assert (pruned.code, "is open. Close it first." in pruned.err) == (1, True)
        assert len(session_files(app.home)) == 1
        await app.press("escape")
        assert await app.leave() == 0


async def test_old_sessions_are_listed_first_and_then_pruned_but_not_those_with_a_name(program: Program) -> None:
    await with_sessions(program, "old zebra", "named lion", "young ape")
    assert (await program.run("sessions", "rename", "lion", "keep me")).code == 0
    for path in session_files(program.home):
        if "young ape" not in path.read_text():
            then = time.time() - 40 * 86_400
            os.utime(path, (then, then))
    listing = await program.run("sessions", "prune")
    assert (listing.code, "use --yes" in listing.err) == (2, True)
    assert "old zebra" in listing.out
    assert "named lion" not in listing.out
    assert len(session_files(program.home)) == 3
    assert (await program.run("sessions", "prune", "--yes")).code == 0
    assert await listed(program) == ["young ape", "keep me"]
    assert "no session without a name is older than 30 days" in (await program.run("sessions", "prune")).out
    assert (await program.run("sessions", "prune", "--days", "-1")).code == 2


async def test_lists_of_sessions_have_no_secrets_and_name_the_folders_of_others(program: Program) -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    await with_sessions(program, f"log in with {key}")
    ways = ["list"], ["list", "--json"], ["show", "log in"], ["show", "log in", "--json"], ["delete", "log in"]
    for way in ways:
        ended = await program.run("sessions", *way)
        assert "log in with " in ended.out
        assert key not in ended.out
        assert f"({program.work})" not in ended.out
    work, program.work = program.work, program.work.parent / "elsewhere"
    program.work.mkdir()
    for way in ["list", "--all"], ["prune", "--days", "0", "--all"]:
        assert f"({work})" in (await program.run("sessions", *way)).out


async def test_a_new_session_of_the_app_gets_a_title_after_its_first_answer(tmp_path: Path) -> None:
    program = Program(tmp_path)
    titled = {**reply(say("Stripes of the zebra")), "match": "You name conversations"}
    on = {"AGENTCLI_SESSION_TITLES": "on"}
    async with app_with(tmp_path, "Painted.", titled, "Again.", environ=on, arguments=["paint it"]) as (app, server):
        await app.wait_for("Painted.")
        await app.wait_for(lambda: any("customTitle" in path.read_text() for path in session_files(app.home)))
        await app.submit("/rename")
        await app.wait_for("Its generated title is “Stripes of the zebra”.")
        await app.submit("once more")
        await app.wait_for("Again.")
        first, title, second = server.bodies
        assert (title["model"], title["max_tokens"] < 100, "tools" in title) == ("claude-haiku-5-5", True, False)
        assert second["system"] == first["system"]
        assert second["tools"] == first["tools"]
        assert unmarked(second["messages"])[: len(first["messages"])] == unmarked(first["messages"])
        assert await app.leave() == 0
    assert await listed(program) == ["Stripes of the zebra"]


async def test_nothing_else_is_sent_without_an_app_or_with_the_setting_off(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.environ["AGENTCLI_SESSION_TITLES"] = "on"
    async with LoopbackServer("Done.") as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "go")).code == 0
        assert len(server.bodies) == 1
    async with app_with(tmp_path, "Painted.", arguments=["paint it"]) as (app, server):
        await app.wait_for("Painted.")
        assert await app.leave() == 0
        assert len(server.bodies) == 1


async def test_old_sessions_go_with_the_setting_and_the_app_says_how_many(tmp_path: Path) -> None:
    program = Program(tmp_path)
    await with_sessions(program, "old zebra", "young ape")
    old = next(path for path in session_files(program.home) if "old zebra" in path.read_text())
    os.utime(old, (0, 0))
    setting = ["--settings", '{"sessionRetentionDays": 30}']
    async with app_with(tmp_path, "Painted.", arguments=[*setting, "paint it"]) as (app, _server):
        await app.wait_for("Deleted 1 session not changed for 30 days (sessionRetentionDays)")
        assert await app.leave() == 0
    assert not old.exists()
    assert await listed(program) == ["paint it", "young ape"]
