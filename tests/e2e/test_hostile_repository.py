"""The program in a folder made to block it or to make it contact a host: it answers, and contacts none."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.e2e.program import Program
from tests.support.hostile_pictures import endless_jpeg
from tests.support.listener import Listener
from tests.support.scripts import call, call_raw, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["fifo", "zero"])
async def test_pipes_and_devices_in_place_of_files_do_not_block(program: Program, kind: str) -> None:
    git = program.work / ".git"
    for folder in (git / "info", git / "objects", git / "refs", program.work / ".agentcli"):
        folder.mkdir(parents=True)
    names = (
        ".git/HEAD",
        ".git/info/exclude",
        ".git/config",
        ".git/packed-refs",
        ".git/index",
        "AGENTS.md",
        "CLAUDE.md",
    )
    for name in (*names, ".gitignore", ".ignore", ".mcp.json", "package.json", ".agentcli/settings.json"):
        if kind == "fifo":
            os.mkfifo(program.work / name)
        else:
            (program.work / name).symlink_to("/dev/zero")
    (program.work / "notes.txt").write_text("hello\n")
    steps = reply(
        call("Read", file_path="notes.txt"),
        call("Read", file_path="AGENTS.md"),
        call("Bash", command="echo done"),
    )
    async with LoopbackServer(steps, "All of it was read.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "look", "--dangerously-skip-permissions")
    assert (ended.code, ended.out.strip()) == (0, "All of it was read."), ended.err


async def test_a_glob_that_would_backtrack_for_ever_is_answered(program: Program) -> None:
    (program.work / ("a" * 250)).write_text("x")
    (program.work / ".agentcli").mkdir()
    rules = {"permissions": {"deny": [f"Read({'*a' * 60}b)", f"Edit({'**/a' * 200}/b)"]}}
    (program.work / ".agentcli" / "settings.json").write_text(json.dumps(rules))
    steps = reply(call("Glob", pattern="*a" * 60 + "b"), call("Read", file_path="a" * 250))
    async with LoopbackServer(steps, "Nothing like it.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "look")
        answered = server.requests[-1].body["messages"][-1]["content"]
    assert (ended.code, ended.out.strip()) == (0, "Nothing like it."), ended.err
    assert [block.get("is_error", False) for block in answered if block["type"] == "tool_result"] == [False, False]


async def test_a_picture_of_endless_passes_is_answered_by_tools_and_mentions(program: Program) -> None:
    # Decoding it would take minutes.
    (program.work / "logo.jpg").write_bytes(endless_jpeg(200_000))
    async with LoopbackServer(reply(call("Read", file_path="logo.jpg")), "It cannot be shown.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "describe @logo.jpg")
        sent = [json.dumps(request.body, ensure_ascii=False) for request in server.requests]
    assert (ended.code, ended.out.strip()) == (0, "It cannot be shown."), ended.err
    assert [text.count("more than 100 passes") for text in sent] == [1, 2]


@pytest.mark.parametrize("levels", [80, 600, 20_000])
async def test_a_session_with_input_nested_very_deeply_is_resumed(program: Program, levels: int) -> None:
    deep = '{"a":' * levels + "1" + "}" * levels
    nested = {**call_raw("Read", deep), "chunk": 10_000}
    async with LoopbackServer(reply(nested), "Never mind.", "Here again.") as server:
        program.talk_to(server.url)
        first = await program.run("-p", "go")
        again = await program.run("-p", "-c", "and now?")
        last = server.requests[-1].body["messages"]
    assert (first.code, first.out.strip()) == (0, "Never mind."), first.err
    assert (again.code, again.out.strip()) == (0, "Here again."), again.err
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]


async def test_read_only_commands_contact_no_host_that_the_repository_names(program: Program) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", *arguments]
        return subprocess.run(command, cwd=program.work, check=True, capture_output=True, text=True).stdout.strip()

    (program.work / "a.txt").write_text("one\n")
    (program.work / "package.json").write_text(json.dumps({"name": "x", "dependencies": {"left-pad": "1.0.0"}}))
    async with Listener() as host:
        (program.work / ".npmrc").write_text(f"registry={host.url}/\nupdate-notifier=true\n")
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "one")
        blob = git("rev-parse", "HEAD:a.txt")
        (program.work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        git("remote", "add", "origin", f"{host.url}/x.git")
        for key, value in (("extensions.partialClone", "origin"), ("remote.origin.promisor", "true")):
            git("config", key, value)
        git("config", "core.repositoryFormatVersion", "1")
        commands = ("npm ls", "npm root", "git show HEAD", "git log -p -1", "echo end")
        steps = [reply(call("Bash", command=command)) for command in commands]
        async with LoopbackServer(*steps, "Done.") as server:
            program.talk_to(server.url)
            ended = await program.run("-p", "look", "--sandbox", "off", "--trust")
            assert ended.out == "Done.\n"
            assert "needs approval" in str(server.requests[1].body["messages"][-1]).lower()
        assert host.requests == []
