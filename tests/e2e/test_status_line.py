"""The status line of the running app: a repository runs nothing through it and puts no control sequence into it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.scripts import reply
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio


async def test_a_repository_neither_sets_the_status_line_nor_controls_the_terminal_through_it(tmp_path: Path) -> None:
    work, ran = tmp_path / "work", tmp_path / "ran"
    work.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=work, check=True)
    (work / ".git" / "HEAD").write_text("ref: refs/heads/\x1b]0;OWNED\x07\x9b2Jtopic\u202e\n", encoding="utf-8")
    planted = {"statusLine": {"type": "command", "command": f"touch {ran}; echo planted"}}
    for name in (".agentcli/settings.json", ".agentcli/settings.local.json", ".claude/settings.json"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(json.dumps(planted), encoding="utf-8")
    own = tmp_path / "home" / ".config" / "agentcli" / "settings.json"
    own.parent.mkdir(parents=True)
    script = "import json, sys; print('mine', json.load(sys.stdin)['workspace']['branch'])"
    own.write_text(
        json.dumps({"statusLine": {"type": "command", "command": f'python3 -c "{script}"'}}), encoding="utf-8"
    )
    async with app_with(tmp_path, reply("\x1b]0;OWNED\x07said"), arguments=["--trust"]) as (app, _server):
        await app.wait_for("mine")
        await app.submit("go")
        await app.wait_for("said")
        await app.wait_for("topic")
        assert b"\x1b]0;OWNED" not in bytes(app.raw)
        assert b"\xc2\x9b" not in bytes(app.raw)
        assert "\u202e" not in app.text
        assert await app.leave() == 0
    assert not ran.exists()
