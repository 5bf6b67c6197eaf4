"""A server of a session that was killed does not outlive it, even if it ignores the end of its input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
    session = subprocess.Popen(
        [sys.executable, "-m", "agentcli", "-p", "hello", "--mcp-config", config],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with session:
        await until((tmp_path / "pid").exists)
        server = int((tmp_path / "pid").read_text())
        assert session.stderr is not None
        # The notice about the wait comes two seconds after the start of the server.
        assert b"Waiting up to 30 s" in session.stderr.readline()
        assert runs(server)
        session.send_signal(signal.SIGKILL)
    await until(lambda: not runs(server))
