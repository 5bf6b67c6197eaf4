"""`--plain` and the terminal around it: editors, stops, hang-ups, keys that are never shown."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.test_app_terminal import GARBAGE
from tests.e2e.test_first_run import KEY, holders, kept_in, program
from tests.e2e.test_plain import PLAIN, asked, last_user_text, leave, prompted
from tests.support.scripts import call, pause, reply, say
from tests.support.server import LoopbackServer
from tests.support.terminal import PROMPT_MARK, TerminalProgram, app_with, processes_in

pytestmark = pytest.mark.anyio


def editor(folder: Path, script: str) -> dict[str, str]:
    path = folder / "my-editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"EDITOR": str(path), "VISUAL": ""}


async def test_a_prompt_is_written_in_the_users_editor_and_a_failing_one_keeps_it_and_says_why(tmp_path: Path) -> None:
    environ = editor(tmp_path, '[ -e fail ] && exit 3; echo " and more" >> "$1"')
    async with app_with(tmp_path, "first answer", "second answer", arguments=PLAIN, environ=environ) as (app, server):
        for text, keys, answer in (("begun", ["ctrl+x", "ctrl+e"], "first"), ("again", ["ctrl+g"], "second")):
            await prompted(app)
            await app.type(text)
            await app.wait_for(f"❯ {text}")
            await app.press(*keys)
            await app.wait_for(f"❯ {text} and more")
            await app.press("enter")
            await app.wait_for(f"{answer} answer")
            assert f"{text} and more" in last_user_text(server)

        (app.work / "fail").touch()
        await prompted(app)
        await app.type("kept")
        await app.wait_for("❯ kept")
        await app.press("ctrl+g")
        await app.wait_for("my-editor ended with code 3")
        await app.wait_for(lambda: app.text.rstrip().endswith("❯ kept"))
        await app.press("ctrl+u")
        assert await leave(app) == 0


async def test_a_plan_is_edited_during_work_and_keys_work_afterwards(tmp_path: Path) -> None:
    environ = editor(tmp_path, 'echo "Do less." > "$1"')
    async with app_with(
        tmp_path,
        reply(call("ExitPlanMode", plan="Do much.")),
        reply(say("It begins.\n\nmore\n\n"), pause(60)),
        arguments=[*PLAIN, "--permission-mode", "plan", "go"],
        environ=environ,
    ) as (app, server):
        await app.wait_for("Go ahead with this plan?")
        await asked(app)
        await app.submit("e")
        await app.wait_for("| Do less.")
        await asked(app)
        await app.submit("y")
        await app.wait_for("It begins.")
        assert "Do less." in last_user_text(server)
        await app.press("escape")
        await app.wait_for("Interrupted.")
        assert await leave(app) == 0


@pytest.mark.parametrize("working", [False, True])
async def test_closing_the_window_ends_the_program_and_its_children(tmp_path: Path, working: bool) -> None:
    async with app_with(
        tmp_path, reply(call("Bash", command="sleep 60")), arguments=[*PLAIN, "--allowed-tools", "Bash"]
    ) as (app, _server):
        await prompted(app)
        if working:
            await app.submit("go")
            await app.wait_for("* Bash sleep 60")
        app.hang_up()
        await app.wait_for(lambda: app.process.poll() is not None)
        await app.wait_for(lambda: not processes_in(app.work))


async def notified(app: TerminalProgram) -> None:
    """Until the prompt is back below the notice: while a notice is printed Enter is not read as a key."""
    await app.wait_for(lambda: PROMPT_MARK in app.text.partition("/login connects one")[2])


async def test_a_prompt_that_needs_a_key_is_kept_or_asks_for_one_which_is_never_shown(tmp_path: Path) -> None:
    async with (
        LoopbackServer(reply("hello from the model")) as server,
        program(tmp_path, *PLAIN, public=server.url) as app,
    ):
        await notified(app)
        await app.submit("a first question")
        await app.wait_for("Your prompt is sent once one")
        await asked(app)
        assert server.requests == [], "no server is asked before the user has chosen"
        await app.submit("k")
        await app.wait_for("it is not shown")
        await asked(app, "Key:")
        await app.paste(KEY)
        await app.press("enter")
        await app.wait_for("hello from the model")
        assert "a first question" in last_user_text(server)
        assert await leave(app) == 0
        assert holders(tmp_path) == [kept_in(app.home)]
    assert KEY.encode() not in app.raw


async def test_a_key_is_not_echoed_on_a_dumb_terminal_either(tmp_path: Path) -> None:
    async with (
        LoopbackServer(reply("hello from the model")) as server,
        program(tmp_path, public=server.url, environ={"TERM": "dumb"}) as app,
    ):
        await app.wait_for("/login connects one")
        await app.submit("/login")
        await asked(app)
        await app.submit("k")
        await asked(app, "Key:")
        await app.submit(KEY)
        await app.wait_for("is stored in")
        assert await leave(app) == 0
        assert app.is_restored
    assert KEY.encode() not in app.raw
    assert b"\x1b" not in app.raw


async def test_a_flood_of_output_and_a_large_paste_are_handled(tmp_path: Path) -> None:
    text = "".join(f"line {number} of many\n" for number in range(800))
    async with app_with(tmp_path, reply(say(text, chunk=500)), arguments=PLAIN) as (app, server):
        await prompted(app)
        await app.paste("pasted " * 1_000)
        await app.wait_for(lambda: app.raw.count(b"pasted") > 50)
        await app.press("enter")
        await app.wait_for("of the context")
        assert b"line 799 of many" in app.raw
        assert "pasted " * 999 in last_user_text(server)
        assert await leave(app) == 0


async def test_the_prompt_text_survives_the_end_of_the_program(tmp_path: Path) -> None:
    async with app_with(tmp_path, arguments=PLAIN) as (app, _server):
        await prompted(app)
        await app.type("not sent yet")
        await app.wait_for("❯ not sent yet")
        app.signal(signal.SIGTERM)
        assert await app.end() == 143
        assert app.is_restored
    async with app_with(tmp_path, reply("an answer"), arguments=PLAIN) as (app, server):
        await app.wait_for("❯ not sent yet")
        await app.press("enter")
        await app.wait_for("an answer")
        assert "not sent yet" in last_user_text(server)
        assert await leave(app) == 0
    async with app_with(tmp_path, arguments=PLAIN) as (app, _server):
        assert await leave(app) == 0
        assert "not sent yet" not in app.text


async def test_readline_vi_mode_is_respected(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".inputrc").write_text("set editing-mode vi\n")
    async with app_with(tmp_path, reply("an answer"), arguments=PLAIN) as (app, server):
        await prompted(app)
        await app.type("wrong words")
        await app.wait_for("❯ wrong words")
        await app.type("\x1b")
        await app.type("0ceright\x1b")
        await app.wait_for("❯ right words")
        await app.press("enter")
        await app.wait_for("an answer")
        assert "right words" in last_user_text(server)
        assert await leave(app) == 0


async def test_garbage_from_the_terminal_does_no_harm_at_the_prompt_and_during_the_work(tmp_path: Path) -> None:
    async with app_with(
        tmp_path, reply(say("It begins.\n\nmore\n\n"), pause(0.5), say("The end.")), reply("答え"), arguments=PLAIN
    ) as (app, server):
        await prompted(app)
        for piece in GARBAGE:
            await app.type(piece)
        await app.submit("go")
        await app.wait_for("It begins.")
        for piece in GARBAGE:
            await app.type(piece)
        await app.wait_for("The end.")
        assert "Interrupted" not in app.text
        await app.wait_for("of the context")
        await app.wait_for(lambda: app.text.rstrip().split("\n")[-1].startswith("❯"))
        await app.press("ctrl+u")
        await app.submit("質問 ünï")
        await app.wait_for("答え")
        assert "質問 ünï" in last_user_text(server)
        assert await leave(app) == 0


async def test_a_key_sent_as_a_prompt_is_not_sent_to_the_model(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "k" * 40
    async with app_with(tmp_path, reply("hello"), arguments=PLAIN) as (app, server):
        await app.wait_for("/help lists")
        await app.submit(key)
        await app.wait_for("it was not sent to the model")
        await app.submit("a prompt")
        await app.wait_for("hello")
        assert await leave(app) == 0
        assert key not in str(server.bodies)
    files = [file for file in app.home.rglob("*") if file.is_file()]
    assert not [file for file in files if key.encode() in file.read_bytes()]
