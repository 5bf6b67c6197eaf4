"""How the app shows the output of commands: diffs, colours, and what a command changed."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from agentcli.core.permission import PermissionMode
from agentcli.tui.app import AgentApp
from tests.support.scripts import call, reply
from tests.tui.test_app import Desk, idle, sends, shown

DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def test_only_output_that_is_a_diff_is_shown_as_one(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "compare")
        await idle(pilot, app)
        text = shown(app)
        assert "+++ b/x" in text, "the mixed output is shown as it is"
        assert text.count("@@ -1 +1 @@") == 1
        assert "1 passed" in text
        assert "1 - a" in text
        assert "1 + b" in text

    calls = call("Bash", command="cat diff; echo 1 passed"), call("Bash", command="cat diff")
    desk = Desk(tmp_path, reply(*calls), "Done.", permission_mode=PermissionMode.BYPASS)
    (desk.project / "diff").write_text(DIFF)
    desk.play(script, (80, 40))
