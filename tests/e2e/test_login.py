"""login, logout and status as users and scripts run them: real processes, a real terminal, real HTTP."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.listener import Listener
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram

pytestmark = pytest.mark.anyio
KEY = "sk-ant-e2e-0123456789abcdefghij"
GOOD, BAD = (200, b"{}"), (401, b"{}")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    del made.environ["ANTHROPIC_API_KEY"]
    return made


def kept_in(home: Path) -> Path:
    return home / ".local/state/agentcli/credentials.json"


def holders(folder: Path, text: str = KEY) -> list[Path]:
    """Files below a folder that hold the key."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def test_a_piped_key_is_checked_saved_for_its_server_used_and_forgotten(program: Program) -> None:
    async with Listener(models=GOOD) as server:
        done = await program.run("login", "--base-url", f"{server.url}/v1", stdin=f"{KEY}\n".encode())
        assert done.code == 0, done.err
        assert server.requests[0][2]["x-api-key"] == KEY
    assert KEY not in done.out + done.err
    assert holders(program.home) == [kept_in(program.home)]
    assert stat.S_IMODE(kept_in(program.home).stat().st_mode) == 0o600

    status = await program.run("status", "--json")
    facts = json.loads(status.out)
    assert status.code == 0
    assert (facts["ready"], facts["key_source"], facts["key_hint"]) == (True, "agentcli login", "…ghij")
    assert facts["endpoint"] == server.url
    assert KEY not in status.out

    async with LoopbackServer("hi") as model:
        program.environ["ANTHROPIC_BASE_URL"] = model.url
        assert (await program.run("-p", "hello")).code == 0
        assert not {"authorization", "x-api-key"} & set(model.requests[0].headers), "it is another server"
    del program.environ["ANTHROPIC_BASE_URL"]

    done = await program.run("logout")
    assert (done.code, holders(program.home)) == (0, [])
    assert "was deleted" in done.out


async def test_a_headless_run_sends_the_saved_key_and_no_other_file_holds_it(program: Program) -> None:
    async with LoopbackServer("hi", "hi") as model:
        done = await program.run("login", "--no-check", "--base-url", model.url, stdin=KEY.encode())
        assert done.code == 0, done.err
        assert model.requests == []
        environment = {"type": "user", "message": {"role": "user", "content": "x"}}
        flags = ("--output-format", "stream-json", "--input-format", "stream-json", "--debug-file", "d.log")
        done = await program.run("-p", *flags, stdin=json.dumps(environment).encode())
        assert done.code == 0, done.err
        assert model.requests[0].headers["x-api-key"] == KEY
    assert done.frames[0]["apiKeySource"] == "agentcli login"
    assert KEY not in done.out + done.err
    assert holders(program.home) == [kept_in(program.home)]
    assert holders(program.work) == []


async def test_commands_cannot_see_the_key(program: Program) -> None:
    program.environ["AGENTCLI_SANDBOX"] = "off"
    look = {"tool": "Bash", "input": {"command": f"env; cat {kept_in(program.home)}; cat ~/.local/state/agentcli/*"}}
    read = {"tool": "Read", "input": {"file_path": str(kept_in(program.home))}}
    async with LoopbackServer({"steps": [look, read]}, "done") as model:
        await program.run("login", "--no-check", "--base-url", model.url, stdin=KEY.encode())
        done = await program.run("-p", "go", "--dangerously-skip-permissions")
        assert done.code == 0, done.err
        assert all(KEY.encode() not in request.raw for request in model.requests)
        results = json.dumps(model.bodies[-1]["messages"][-1])
        assert results.count('"is_error": true') == 2, results
    assert holders(program.home) == [kept_in(program.home)]


async def test_searches_in_the_project_and_outside_of_it_do_not_find_the_key(program: Program) -> None:
    state = kept_in(program.home).parent
    through_home = {"pattern": "sk-ant", "path": str(state), "output_mode": "content"}
    searches = [
        {"tool": "Grep", "input": {"pattern": "sk-ant", "path": path, "output_mode": "content"}}
        for path in (str(program.home), str(state), "link")
    ]
    searches.append({"tool": "Glob", "input": {"pattern": "*", "path": str(state)}})
    replies = [{"steps": [{"tool": "Grep", "input": through_home}]}, "done", *[{"steps": searches}, "done"] * 2]
    async with LoopbackServer(*replies) as model:
        await program.run("login", "--no-check", "--base-url", model.url, stdin=KEY.encode())
        (state / "beside.txt").write_text("sk-ant-in-the-next-file")
        (program.work / "link").symlink_to(state)
        # A session of an earlier run would be found, too.
        run = ("-p", "go", "--no-session-persistence")
        done = await program.run(*run, "--add-dir", str(program.home))
        assert done.code == 0, done.err
        assert b"in-the-next-file" in model.requests[-1].raw
        assert KEY.encode() not in model.requests[-1].raw

        for rules in ((), ("--disallowedTools", "Read(**/*.pem)")):
            done = await program.run(*run, "--dangerously-skip-permissions", *rules)
            assert done.code == 0, done.err
            results = json.dumps(model.bodies[-1]["messages"][-1])
            assert results.count("in-the-next-file") == 3, results
            assert KEY not in results
            assert "beside.txt" in results
            assert kept_in(program.home).name not in results


async def test_a_wrong_key_is_reported_and_not_saved(program: Program) -> None:
    async with Listener(models=BAD) as server:
        done = await program.run("login", "--base-url", server.url, stdin=KEY.encode())
    assert done.code == 1
    assert "does not accept this key (401). Nothing was changed." in done.err
    assert list(program.home.rglob("*.json")) == []


async def test_a_key_as_an_argument_is_refused_and_not_repeated(program: Program) -> None:
    done = await program.run("login", KEY)
    assert done.code == 2
    assert "agentcli login < FILE" in done.err
    assert KEY not in done.out + done.err


async def test_without_a_key_every_message_explains_how_to_log_in(program: Program) -> None:
    status = await program.run("status")
    assert status.code == 1
    run = await program.run("-p", "hello")
    assert run.code == 1
    for text in (status.out, run.err):
        for way in ("agentcli login", "ANTHROPIC_API_KEY", "agentcli demo"):
            assert way in text


# ----------------------------------------------------------------------------------------------------- in a terminal


def login_terminal(folder: Path, *arguments: str) -> TerminalProgram:
    return TerminalProgram(folder, "login", *arguments, environ={"ANTHROPIC_API_KEY": ""})


async def test_typed_keys_are_not_echoed_and_a_wrong_one_may_be_retyped(tmp_path: Path) -> None:
    async with Listener(models=BAD) as server, login_terminal(tmp_path, "--base-url", server.url) as terminal:
        await terminal.wait_for("it is not shown")
        await terminal.type(f"{KEY}\r")
        await terminal.wait_for("does not accept this key (401). Try again.")
        server.answers["/v1/models"] = GOOD
        await terminal.wait_for(lambda: terminal.text.count("it is not shown") == 2)
        await terminal.type(f"\x1b[200~{KEY}\x1b[201~\r")
        await terminal.wait_for("is stored in")
        assert await terminal.end() == 0
        assert terminal.is_restored
        assert KEY.encode() not in terminal.raw
        assert KEY[:8].encode() not in terminal.raw
        assert holders(terminal.home) == [kept_in(terminal.home)]


async def test_ctrl_c_while_the_key_is_asked_for_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async with login_terminal(tmp_path) as terminal:
        await terminal.wait_for("it is not shown")
        await terminal.type(KEY)
        await terminal.press("ctrl+c")
        assert await terminal.end() == 130
        assert terminal.is_restored
        assert KEY.encode() not in terminal.raw
        assert holders(terminal.home) == []


async def test_without_a_network_the_user_decides(tmp_path: Path) -> None:
    async with Listener() as server:
        url = server.url
    for answer, code in (("n", 75), ("y", 0)):
        async with login_terminal(tmp_path / answer, "--base-url", url) as terminal:
            await terminal.wait_for("it is not shown")
            await terminal.type(f"{KEY}\r")
            await terminal.wait_for("Store the key without a check?")
            await terminal.type(f"{answer}\r")
            assert await terminal.end() == code
            assert kept_in(terminal.home).exists() == (answer == "y")


async def test_the_key_is_in_no_argument_and_in_no_environment_of_a_process(tmp_path: Path) -> None:
    async with Listener(models=None) as server, login_terminal(tmp_path, "--base-url", server.url) as terminal:
        await terminal.wait_for("it is not shown")
        await terminal.type(f"{KEY}\r")
        await terminal.wait_for(lambda: server.requests)
        for name in ("cmdline", "environ"):
            assert KEY.encode() not in Path(f"/proc/{terminal.process.pid}/{name}").read_bytes()
        terminal.signal(signal.SIGINT)
        assert await terminal.end() == 130
