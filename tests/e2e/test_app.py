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


async def test_an_edit_is_shown_as_a_diff_and_accepted_hunk_by_hunk(tmp_path: Path) -> None:
    before = [f"line {number}" for number in range(40)]
    after = ["the first is new", *before[1:39], "the last is new"]
    async with app_with(
        tmp_path,
        reply(call("Read", file_path="file.txt")),
        reply(call("Write", file_path="file.txt", content="\n".join(after) + "\n")),
        reply("half of it"),
    ) as (app, server):
        (app.work / "file.txt").write_text("\n".join(before) + "\n")
        await app.ready()
        await app.submit("go")
        await app.wait_for("Review hunk by hunk")
        assert "the first is new" in app.text
        assert "- " in app.text, "what goes is marked by a sign, not only by a colour"
        await app.answer("h")
        await app.wait_for("Which of these hunks?")
        await app.wait_for("1✓")
        await app.press("n", "y")
        await app.wait_for("Apply 1 of 2 hunks")
        await app.press("enter")
        await requests(app, server, 3)
        assert (app.work / "file.txt").read_text().splitlines() == [*before[:39], "the last is new"]
        assert "the first is new" in last_user_text(server), "the model is told what was rejected"
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


async def test_a_shell_line_runs_at_once_also_during_work_shows_its_progress_and_is_reported_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    wait = "until [ -e {} ]; do sleep 0.02; done"
    command = (
        f"printf 'fetch 7%%'; {wait.format('a')}; printf '\\rfetch 100%%\\n'; seq 30000; {wait.format('b')}; echo over"
    )
    replies = (reply("I see"), reply(call("Bash", command=wait.format("inner/go"))), reply("I saw it"))
    async with app_with(tmp_path, *replies, arguments=["--allowedTools", "Bash"]) as (app, server):
        await app.ready()
        await app.submit(r"!printf 'hi-%s\there\n' $((1+1))")
        await app.wait_for("│ hi-2    here")
        assert server.bodies == []
        await app.submit("what was that?")
        await app.wait_for("I see")
        said = json.dumps(server.bodies[0]["messages"])
        assert "hi-2" in said
        assert "printf 'hi-" in said

        await app.submit(f"!{command}")
        await app.wait_for("│ fetch 7%")
        (app.work / "a").touch()
        await app.wait_for("… 29,993 more lines above")
        assert "│ 30000" in app.text
        (app.work / "b").touch()
        await app.wait_for("│ over")
        await app.submit(f"!printf 'load 7%%'; {wait.format('c')}; printf '\\rload 8%%'; {wait.format('d')}")
        await app.wait_for("│ load 7%")
        (app.work / "c").touch()
        await app.wait_for("│ load 8%")
        assert "│ load 7%" not in app.text
        (app.work / "d").touch()

        await app.submit("wait for the file")
        await app.wait_for("Bash until")
        await app.submit("!mkdir inner && cd inner && echo made-$((1+1))")
        await app.wait_for("made-2")
        assert len(server.bodies) == 2, "the model still waits for its command"
        await app.submit("!touch go; echo also-$((2+2))")
        await app.wait_for("(in inner)")
        await app.wait_for("I saw it")
        said = json.dumps(server.bodies[2]["messages"])
        assert "made-2" in said
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


async def test_a_question_of_the_model_and_its_plan_are_answered(tmp_path: Path) -> None:
    options = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
    question = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}
    async with app_with(
        tmp_path,
        reply(call("AskUserQuestion", questions=[question])),
        reply(call("ExitPlanMode", plan="# The plan\n\n1. paint it")),
        reply("painted"),
        arguments=["--permission-mode", "plan"],
    ) as (app, server):
        await app.ready()
        await app.submit("paint it")
        await app.wait_for("A question for you")
        assert "2 ○ blue" in app.text
        await app.answer("2")
        await requests(app, server, 2)
        assert "blue" in last_user_text(server)
        await app.wait_for("Yes, and ask before each edit")
        assert "The plan" in app.text
        await app.answer("y")
        await app.wait_for("painted")
        await app.wait_for("default mode")
        assert await app.leave() == 0


async def test_a_command_is_allowed_with_words_for_the_model(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply(call("Bash", command="touch made")), reply("noted")) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("Allow once and say what to do next")
        await app.answer("t")
        await app.wait_for("What should the agent do next?")
        await app.submit("now run the tests")
        await app.wait_for("noted")
        assert (app.work / "made").exists()
        content = server.bodies[-1]["messages"][-1]["content"]
        assert [block["type"] for block in content] == ["tool_result", "text"]
        assert content[1]["text"] == "[The user approved `Bash touch made` and said:]\nnow run the tests"
        assert await app.leave() == 0


async def test_esc_during_a_compaction_is_reported_in_one_line(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("an answer"), reply(pause(60), say("x"))) as (app, server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("an answer")
        await app.submit("/compact")
        await requests(app, server, 2)
        await app.press("escape")
        await app.wait_for("Interrupted.")
        await app.wait_for("Ask anything")
        assert "not compacted" not in app.text
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


async def test_agents_have_a_block_each_which_escape_stops_and_a_resumed_session_shows_again(tmp_path: Path) -> None:
    tasks = [
        call("Task", description=f"Part {name}", prompt=f"PART {name}", subagent_type="explore") for name in ("A", "B")
    ]
    replies = (
        reply("The report of A.", match="PART A"),
        reply(say("I look."), pause(60), match="PART B"),
        reply(say("I delegate."), *tasks),
    )
    async with app_with(tmp_path, *replies) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("✓ explore-1 Part A · done")
        await app.wait_for("● explore-2 Part B · running")
        await app.wait_for("1 agent running")
        assert "The report of A." in app.text
        assert "I look." not in app.text
        await app.press("escape")
        await app.wait_for("■ explore-2 Part B · stopped")
        await app.wait_for("Interrupted.")
        assert await app.leave() == 0
    async with app_with(tmp_path, arguments=["-c"]) as (app, _server):
        await app.wait_for("■ explore-2 Part B · stopped")
        assert "✓ explore-1 Part A · done" in app.text
        assert await app.leave() == 0
