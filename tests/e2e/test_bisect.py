"""`agentcli bisect` on sessions of the real program: it finds the change, and leaves the project as it was."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import signal
import subprocess
import zlib
from pathlib import Path

import pytest

from agentcli.core.messages import Json
from tests.e2e.program import Ended, Program, until_gone
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram

pytestmark = pytest.mark.anyio

EDITING = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash")
SANDBOX = () if shutil.which("bwrap") else ("--sandbox", "off")


def edit(old: str, new: str, path: str = "calc.txt") -> Json:
    return reply(call("Edit", file_path=path, old_string=old, new_string=new))


def listing(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and folder below one, `.git` too, with its mode, its time and a digest."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, hashlib.sha256(content).hexdigest())
    return found


def git(program: Program, *arguments: str) -> str:
    command = ["git", "-c", "user.name=kim", "-c", "user.email=kim@example.invalid", *arguments]
    done = subprocess.run(command, cwd=program.work, env=program.environ, capture_output=True, text=True, check=True)
    return done.stdout


async def record_session(program: Program) -> None:
    """Two prompts with edits and commands, and a change of the user between them. Call 5, a command, breaks it."""
    (program.work / "calc.txt").write_text("one\nsum = right\nthree\n")
    replies = [
        reply(call("Read", file_path="calc.txt")),
        edit("one", "ONE"),
        reply(call("Bash", command="echo new > other.txt")),
        reply("first done"),
        reply(call("Read", file_path="calc.txt")),
        reply(call("Bash", command="sed -i s/right/wrong/ calc.txt")),
        reply(call("Read", file_path="calc.txt")),
        edit("three", "THREE"),
        reply("second done"),
    ]
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "write it in capitals", *EDITING)).out == "first done\n"
        (program.work / "mine.txt").write_text("by the user\n")
        assert (await program.run("-p", "make it\x1b[31m faster", "-c", *EDITING)).out == "second done\n"


async def bisect(program: Program, *arguments: str) -> Ended:
    return await program.run("bisect", *SANDBOX, *arguments)


@pytest.mark.parametrize("in_git", [True, False])
async def test_the_call_is_found_and_the_project_is_unchanged(program: Program, in_git: bool) -> None:
    if in_git:
        git(program, "init", "-q")
        (program.work / ".gitignore").write_text("node_modules/\n")
        (program.work / "node_modules").mkdir()
        (program.work / "node_modules" / "tool").write_text("needed\n")
    program.environ["TMPDIR"] = str(program.home.parent / "tmp")
    Path(program.environ["TMPDIR"]).mkdir()
    await record_session(program)
    if in_git:
        git(program, "add", "calc.txt")
        git(program, "commit", "-q", "-m", "half")
    status = git(program, "status", "--porcelain") if in_git else ""
    before = listing(program.work)
    needs = "grep -q needed node_modules/tool && " if in_git else ""
    command = f"{needs}touch made.txt && echo judged && grep -q right calc.txt"
    ended = await bisect(program, command)
    assert ended.code == 0, ended.err
    head, _when, _blank, *diff = ended.out.splitlines()
    assert head == "Call 5 of 7, Bash sed -i s/right/wrong/ calc.txt, in prompt 2: “make it faster”"
    assert "-sum = right" in diff
    assert "+sum = wrong" in diff
    assert "+THREE" not in diff
    assert diff[-1] == "  | judged"
    assert "Run 1 of at most 4, before the first change: good" in ended.err
    assert "\x1b" not in ended.out + ended.err
    assert listing(program.work) == before
    assert not in_git or git(program, "status", "--porcelain") == status
    assert ("shown to the command as they are now: node_modules" in ended.err) is in_git
    assert not list(Path(program.environ["TMPDIR"]).iterdir())

    theirs = json.loads((await bisect(program, "--json", "! test -e mine.txt")).out)
    [change] = theirs["changes"]
    assert (theirs["found"], change["kind"], change["prompt"]) == (True, "user", 2)
    assert "by the user" in "".join(theirs["diffs"].values())


async def test_ends_skips_and_absolute_paths(program: Program) -> None:
    await record_session(program)
    path = program.work / "calc.txt"
    absolute = path if not SANDBOX else "calc.txt"  # without a sandbox the command gets the copy in another folder
    found = json.loads((await bisect(program, "--json", f"grep -q right {absolute}")).out)
    assert found["changes"][0]["title"] == "Bash sed -i s/right/wrong/ calc.txt"

    bad = await bisect(program, "echo nothing-here; no-such-program")
    assert (bad.code, bad.out.count("\n")) == (1, 3)
    assert "already fails before the first change (exit code 127). The command was not found" in bad.out
    assert "  | nothing-here" in bad.out
    good = await bisect(program, "true")
    assert (good.code, good.err.count("Run")) == (1, 4)
    assert "The command succeeds after the last change too" in good.out

    skips = "if grep -q wrong calc.txt && grep -q three calc.txt; then exit 125; fi; grep -q right calc.txt"
    several = await bisect(program, skips)
    assert several.code == 0
    assert several.out.startswith("One of these changes, because the states between them were skipped:\nCall 5 of 7")
    assert "Call 7 of 7, Edit" in several.out

    slow = await bisect(program, "--timeout", "0.2", "grep -q right calc.txt || sleep 60")
    assert "Call 5 of 7" in slow.out
    assert "With this change the command times out" in slow.out
    late = await bisect(program, "--from", "2", "--timeout", "0.2", "sleep 60")
    assert "2 changes in session" in late.err
    assert "already fails before the first change (it timed out)" in late.out
    for wrong in (("--timeout", "nan", "true"), ("",), ("a", "b", "c")):
        assert (await bisect(program, *wrong)).code == 2


async def test_a_rewind_of_the_files_is_named(program: Program) -> None:
    await record_session(program)
    assert "1 file removed" in (await program.run("-p", "/rewind 1 files", "-c")).out
    found = await bisect(program, "--from", "2", "test -e other.txt")
    assert found.out.startswith("Your rewind of the files after prompt 2\n"), found.out


async def test_it_stops_and_leaves_no_process(program: Program) -> None:
    await record_session(program)
    running = await program.start("bisect", *SANDBOX, "sleep 600")
    assert running.process.stderr is not None
    async with asyncio.timeout(60):
        await running.process.stderr.readuntil(b"Run 1 of at most 4")
    running.signal(signal.SIGINT)
    ended = await running.finish()
    assert ended.code == 130
    assert "Stopped. Nothing in the project has changed." in ended.err
    assert not await until_gone(program.work)

    async with TerminalProgram(program.work.parent, "bisect", *(SANDBOX or ("--sandbox", "on")), "sleep 600") as app:
        await app.wait_for("Run 1 of")
        await app.press("up", "escape")
        assert await app.end() == 130
        assert "Stopped." in app.text


async def test_without_a_sandbox_it_asks_for_a_flag(program: Program) -> None:
    await record_session(program)
    program.environ["AGENTCLI_SANDBOX"] = "off"
    refused = await program.run("bisect", "true")
    assert refused.code == 1
    assert "Without a sandbox the command could change the project." in refused.err
    assert "add --sandbox off" in refused.err
    before = listing(program.work)
    ended = await program.run("bisect", "--sandbox", "off", "grep -q right calc.txt")
    assert ended.out.startswith("Call 5 of 7, Bash sed")
    assert "an editable install would test the project itself" in ended.err
    assert listing(program.work) == before


async def test_a_snapshot_that_cannot_be_copied_is_reported(program: Program) -> None:
    await record_session(program)
    program.environ["TMPDIR"] = "/no/such/folder"
    assert (await bisect(program, "grep -q right calc.txt")).code == 0, "another folder for temporary files is used"
    state = program.home / ".local" / "state" / "agentcli" / "snapshots"
    for path in (path for path in state.rglob("*") if path.is_file() and path.parent.parent.name == "objects"):
        if b"right" in zlib.decompress(path.read_bytes()):
            path.unlink()
    broken = await bisect(program, "grep -q right calc.txt")
    assert broken.code == 1
    assert "cannot be made: git " in broken.err


async def test_a_session_without_snapshots_is_reported(program: Program) -> None:
    nothing = await bisect(program, "true")
    assert "There is no session in this folder." in nothing.err
    await record_session(program)
    state = program.home / ".local" / "state" / "agentcli" / "snapshots"
    for place in (state / "folders").iterdir():
        shutil.rmtree(place / "objects")
    pruned = await bisect(program, "true")
    assert pruned.code == 1
    assert "snapshots of this session were deleted: they are kept for 30 days" in pruned.err
    [journal] = (state / "sessions").iterdir()
    journal.unlink()
    assert "This session has no snapshots to search: no call changed files" in (await bisect(program, "true")).err
