"""A server does not outlive its session, even if that was killed, nor do daemons that it started."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.fork_server import forked_with_streams
from tests.support.mcp_started import until
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def daemon(folder: Path) -> str:
    """A script that starts a process in a session of its own, without a parent, and waits for its pid."""
    inner = f"echo \\$\\$ > {folder}/own; mv {folder}/own {folder}/daemon; exec sleep 600"
    return f'(setsid sh -c "{inner}" &); while [ ! -e {folder}/daemon ]; do sleep 0.02; done;'


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid")
async def test_a_server_ends_after_its_session_was_killed(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"version": 1, "replies": ["hi"]}))
    deaf = (
        f"trap '' HUP INT TERM; {daemon(tmp_path)}"
        f" echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; while :; do sleep 60; done"
    )
    config = json.dumps({"mcpServers": {"deaf": {"command": "/bin/sh", "args": ["-c", deaf]}}})
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AGENTCLI_SCRIPT": str(tmp_path / "script.json")}
    reading, writing = os.pipe()
    with Path(os.devnull).open("r+b") as nothing, os.fdopen(reading, "rb") as errors:
        command = ["-m", "agentcli", "-p", "hello", "--mcp-config", config]
        session = forked_with_streams(command, tmp_path, environ, [nothing.fileno(), nothing.fileno(), writing])
        os.close(writing)
        try:
            await until((tmp_path / "pid").exists)
            server = int((tmp_path / "pid").read_text())
            # The notice about the wait comes two seconds after the start of the server.
            assert b"Waiting up to 10 s" in errors.readline()
            assert runs(server)
        finally:
            session.kill()
            session.wait()
    await until(lambda: not runs(server))
    await until(lambda: not runs(int((tmp_path / "daemon").read_text())))


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid")
async def test_a_daemon_of_a_server_that_has_exited_ends_with_the_session(program: Program, tmp_path: Path) -> None:
    config = {"mcpServers": {"forking": {"command": "/bin/sh", "args": ["-c", f"{daemon(tmp_path)} exit 3"]}}}
    async with LoopbackServer("Done.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", "--mcp-config", json.dumps(config))
    assert ended.out == "Done.\n"
    assert not runs(int((tmp_path / "daemon").read_text()))
