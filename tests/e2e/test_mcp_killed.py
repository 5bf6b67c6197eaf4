"""A server of a session that was killed does not outlive it, even if it ignores the end of its input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.fork_server import forked_with_streams
from tests.support.mcp_started import until

pytestmark = pytest.mark.anyio


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_a_server_ends_after_its_session_was_killed(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"version": 1, "replies": ["hi"]}))
    deaf = (
        f"trap '' HUP INT TERM; echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; while :; do sleep 60; done"
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
