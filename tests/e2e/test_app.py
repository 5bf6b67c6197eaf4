"""The app in a real terminal, talking HTTP to a loopback server: everyday use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.test_app_keys import SLOW_START
from tests.support.scripts import call, pause, reply, say, think
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with, earlier_session

pytestmark = pytest.mark.anyio

MARKDOWN = "# A heading\n\nSome **bold** words.\n\n- first\n- second\n\n```python\nprint('code')\n```\n\nThe end."


def last_user_text(server: LoopbackServer) -> str:
    """Everything that the last request says in its last message."""
    return json.dumps(server.bodies[-1]["messages"][-1], ensure_ascii=False)


async def requests(app: TerminalProgram, server: LoopbackServer, count: int) -> None:
    await app.wait_for(lambda: len(server.bodies) >= count)


# -------------------------------------------------------------------------------------------------------- the start


async def test_a_prompt_sent_during_startup_runs_and_later_text_stays_in_the_box_in_order(tmp_path: Path) -> None:
    typed = "".join(f"{number:03d}-" for number in range(50))
    async with app_with(tmp_path, reply("an answer"), fresh=True) as (app, server):
        await app.submit("a question")
        await app.type(typed[:120])
        await app.wait_for(lambda: app.raw)
        await app.type(typed[120:])
        await app.ready()
        await app.wait_for(lambda: app.box == typed)
        await app.wait_for("an answer")
        assert "a question" in last_user_text(server)
        assert "000-" not in last_user_text(server)
        assert app.box == typed
        assert await app.leave() == 0
        assert app.is_restored


async def test_a_reply_streams_in_as_markdown_its_thinking_expands_and_shift_tab_cycles_the_modes(
    tmp_path: Path,
) -> None:
    first, last = MARKDOWN.split("The end.")
    streamed = reply(think("a deep thought"), say(first), pause(0.2), say("The end." + last))
    async with app_with(tmp_path, streamed) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("• first")
        assert "The end." not in app.text, "the beginning is shown while the rest is on its way"
        await app.wait_for("The end.")
        for shown in ("A heading", "Some bold words.", "• second", "print('code')"):
            assert shown in app.text
        for marks in ("**", "# A", "```"):
            assert marks not in app.text

        await app.wait_for("Thought for")
        assert "a deep thought" not in app.text
        await app.press("ctrl+o")
        await app.wait_for("a deep thought")

        await app.press("shift+tab")
        await app.wait_for("accept edits")
        await app.press("shift+tab")
        await app.wait_for("plan mode")
        await app.press("shift+tab")
        await app.wait_for("plan mode", gone=True)
        assert await app.leave() == 0


# ---------------------------------------------------------------------------------------------------- permissions


async def test_a_command_is_asked_about_and_allowed_once_denied_denied_with_text_or_always_allowed(
    tmp_path: Path,
) -> None:
    replies = [
        step for name in ("one", "two", "three") for step in (reply(call("Bash", command=f"touch {name}")), name)
    ]
    always = [reply(call("Bash", command="touch it")), reply(call("Bash", command="touch it")), reply("ready now")]
    async with app_with(tmp_path, *replies, *always) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("Run this command?")
        assert "$ touch one" in app.text
        await app.answer("y")
        await requests(app, server, 2)
        await app.wait_for("Run this command?", gone=True)
        assert (app.work / "one").exists()

        await app.submit("again")
        await app.wait_for("$ touch two")
        await app.answer("n")
        await requests(app, server, 4)
        assert not (app.work / "two").exists()
        assert '"is_error": true' in last_user_text(server)

        await app.wait_for("Run this command?", gone=True)
        await app.submit("third")
        await app.wait_for("$ touch three")
        await app.answer("w")
        await app.wait_for("What should the agent do instead?")
        await app.type("use the other file\r")
        await requests(app, server, 6)
        assert not (app.work / "three").exists()
        assert "use the other file" in last_user_text(server)

        await app.wait_for("What should the agent do instead?", gone=True)
        await app.submit("always")
        await app.wait_for("Always allow Bash(touch it)")
        await app.answer("tab")
        await app.wait_for("settings.local.json of this project")
        await app.press("a")
        await app.wait_for("ready now")  # the second call was not asked about
        saved = json.loads((app.work / ".agentcli/settings.local.json").read_text())
        assert saved["permissions"]["allow"] == ["Bash(touch it)"], "the rule that was shown, in the file named"
        assert await app.leave() == 0


# ---------------------------------------------------------------------------------------------------- the prompt box


async def test_pasted_lines_wait_until_enter_and_half_a_megabyte_is_one_chip_and_is_sent_completely(
    tmp_path: Path,
) -> None:
    pasted = "".join(f"{number:07d}\n" for number in range(512 * 1024 // 8))
    async with app_with(tmp_path, reply("seen"), reply("all of it")) as (app, server):
        await app.ready()
        await app.paste("first line\nsecond line\n")
        await app.type("third")
        await app.wait_for("third")
        assert server.bodies == []
        await app.press("enter")
        await app.wait_for("seen")
        assert "first line\\nsecond line\\nthird" in last_user_text(server)

        await app.submit("/clear")
        await app.wait_for("first line", gone=True)
        before = app.processor_seconds
        await app.paste(pasted)
        await app.type("what is it?")
        await app.wait_for("what is it?")
        assert app.processor_seconds - before < 0.2
        assert len(app.box) < 100
        await app.press("enter")
        await requests(app, server, 2)
        content = server.bodies[1]["messages"][-1]["content"]
        sent = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        assert pasted.strip() in sent
        await app.wait_for("all of it")
        assert await app.leave() == 0


# ------------------------------------------------------------------------------------------------ pages and sessions


PAGES = {
    "/model": "Model",
    "/effort": "Effort of",
    "/mode": "Permission mode",
    "/theme": "Theme",
    "/context": "Context",
    "/cost": "Cost of this session",
    "/diff": "Changes of this session",
    "/tasks": "Background commands",
    "/help": "Help",
    "/config": "Settings",
    "/resume": "Resume a session",
}


async def test_every_page_opens_and_closes_with_escape_and_changes_nothing(tmp_path: Path) -> None:
    async with app_with(tmp_path) as (app, server):
        await app.ready()
        await app.wait_for(lambda: "Esc interrupts" in app.text and "next ~$" in app.text)
        before = app.text
        files = settings_files(tmp_path)
        for command, title in PAGES.items():
            await app.submit(command)
            await app.wait_for(f"─── {title}")
            await app.press("down", "escape")
            await app.wait_for(lambda: app.text == before)
        assert settings_files(tmp_path) == files
        assert server.bodies == []
        assert await app.leave() == 0


def settings_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.json") if "settings" in path.name}


async def test_a_session_is_resumed_with_c_and_picked_with_resume(tmp_path: Path) -> None:
    long = "\n\n".join(f"paragraph {number}" for number in range(60))
    await earlier_session(tmp_path, "tell me something long", reply(long))
    async with app_with(tmp_path, reply("I remember"), arguments=["-c"], command=("-c", SLOW_START)) as (app, server):
        await app.wait_for("paragraph 59")
        assert "paragraph 0\n" not in app.text
        await app.press("pageup")
        await app.wait_for("paragraph 59", gone=True)
        before = app.screen[:20]
        (app.work / "go").touch()
        await app.ready()
        assert app.screen[:20] == before, "what is read stays where it is when the rest comes"
        await app.submit("and?")
        await app.wait_for("I remember")
        assert "tell me something long" in json.dumps(server.bodies[0]["messages"])
        assert await app.leave() == 0
    async with app_with(tmp_path, arguments=["--resume"]) as (app, _server):
        await app.wait_for("tell me something long")
        await app.wait_for("│ ❯ and?")
        await app.press("enter")
        await app.ready()
        await app.wait_for("I remember")
        assert await app.leave() == 0
    async with app_with(tmp_path, reply("a new one"), arguments=["--resume"]) as (app, server):
        await app.wait_for("tell me something long")
        await app.press("escape")
        await app.ready()
        await app.submit("hello")
        await app.wait_for("a new one")
        assert len(server.bodies[0]["messages"]) == 1
        assert await app.leave() == 0


# ------------------------------------------------------------------------------------------------- other questions


async def test_a_folder_with_its_own_settings_is_asked_about_before_they_apply(tmp_path: Path) -> None:
    replies = (reply(call("Bash", command="touch made")), reply("an answer"))
    async with app_with(tmp_path, *replies) as (app, _server):
        (app.work / ".agentcli").mkdir()
        (app.work / ".agentcli/settings.json").write_text('{"permissions": {"allow": ["Bash(touch *)"]}}')
        await app.submit("t")  # typed blindly, it is a prompt and no answer
        await app.wait_for("Trust it: all of this takes effect")
        assert "Bash(touch *)" in app.text
        assert not (app.work / "made").exists()
        await app.answer("t")
        await app.wait_for("an answer")
        assert (app.work / "made").exists(), "the rule holds now"
        assert await app.leave() == 0


async def test_a_draft_survives_when_the_program_is_killed(tmp_path: Path) -> None:
    async with app_with(tmp_path) as (app, _server):
        await app.ready()
        await app.type("half a thought")
        await app.wait_for(lambda: list(app.home.rglob("drafts/*/*.json")))
        app.process.kill()
        assert await app.end() == -9
    async with app_with(tmp_path) as (app, _server):
        await app.wait_for(lambda: app.box == "half a thought")
        assert await app.leave() == 0


# ---------------------------------------------------------------------------------------------------------- sub-agents
