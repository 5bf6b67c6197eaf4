"""How the app shows the output of commands: diffs, colours, and what a command changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from rich.color import Color
from rich.style import Style
from textual.pilot import Pilot

from agentcli.core.permission import PermissionMode
from agentcli.tui.app import AgentApp
from agentcli.workspace.shadow import Shadow
from tests.support.scripts import call, reply
from tests.tui.test_app import Desk, idle, sends, shown, until

COLOURED = r"printf '\033[1;32mpassed\033[0m \033[41mFAIL\033[0m \033]0;t\007\033[2J%s\n' end"
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


def styles_of(app: AgentApp, text: str) -> list[Style]:
    """Styles of the segments on the screen that are exactly this text."""
    strips = app.screen._compositor.render_strips(app.size)
    return [segment.style for strip in strips for segment in strip if segment.text == text and segment.style]


@pytest.mark.parametrize("theme", ["dark", "light", "no colours"])
def test_colours_of_output_are_those_of_the_theme_and_the_model_gets_clean_text(tmp_path: Path, theme: str) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "test it")
        await idle(pilot, app)
        palette = app.palette
        assert "passed FAIL end" in shown(app)
        (passed,), (failed,) = styles_of(app, "passed"), styles_of(app, "FAIL")
        assert passed.bold
        assert failed.reverse
        if palette.colours:
            assert passed.color == palette.success.color
            assert failed.color == palette.error.color
            assert palette.dark == (theme == "dark")
        else:
            assert theme == "no colours"
            assert passed.color in (None, Color.default())
        result = desk.transport.requests[-1]["messages"][-1]
        assert "\x1b" not in str(result)
        assert "passed FAIL end" in str(result)

    desk = Desk(
        tmp_path,
        reply(call("Bash", command=COLOURED)),
        "Done.",
        permission_mode=PermissionMode.BYPASS,
        theme="dark" if theme == "no colours" else theme,
        variables={"NO_COLOR": "1"} if theme == "no colours" else {},
    )
    desk.play(script)


def test_what_a_command_changed_is_counted_and_shown_when_opened_also_after_a_resume(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "write")
        await idle(pilot, app)
        check(app)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "2 + two" in shown(app))
        assert "parser.py" in shown(app)
        assert "- def head" in shown(app)
        assert "diff --git" not in shown(app)

    def check(app: AgentApp) -> None:
        text = shown(app)
        assert "changed 2 files +2 −2" in text
        assert "+ two" not in text
        assert text.count("changed") == 1, "a command that changes nothing shows nothing"

    async def again(pilot: Pilot[int], app: AgentApp) -> None:
        await idle(pilot, app)
        check(app)

    calls = (
        call("Bash", command="printf 'one\\ntwo\\n' > new.txt && rm parser.py"),
        call("Bash", command="cat new.txt; touch new.txt"),
    )
    Desk(tmp_path, reply(*calls), "Done.", permission_mode=PermissionMode.BYPASS).play(script)
    Desk(tmp_path, permission_mode=PermissionMode.BYPASS, continue_latest=True).play(again)


def test_changes_are_compared_beside_the_next_request(tmp_path: Path) -> None:
    """The comparison hangs until the second request was sent."""
    compared = asyncio.Event()
    original = Shadow.patch

    async def patch(self: Shadow, before: str, after: str, limit: int) -> str:
        await compared.wait()
        return await original(self, before, after, limit)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "write")
        await until(pilot, lambda: len(desk.transport.requests) == 2)
        assert "changed 1 file" not in shown(app)
        compared.set()
        await idle(pilot, app)
        assert "changed 1 file +1 −0" in shown(app)

    desk = Desk(
        tmp_path, reply(call("Bash", command="echo x > new.txt")), "Done.", permission_mode=PermissionMode.BYPASS
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Shadow, "patch", patch)
        desk.play(script)
