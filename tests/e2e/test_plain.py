"""`--plain` in a real terminal, talking HTTP to a loopback server: text is appended, and all else is as in the app."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path

import pytest

from tests.support.scripts import call, pause, reply, say, think
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio

PLAIN = ["--plain"]
ADDRESSING = re.compile(rb"\x1b\[\d*;?\d*[Hf]|\x1b\[\?1049h|\x1b\[[23]J|\x1b\[\d*[AFS T]|\x1b\[\d*d")
"""Going to a place on the screen, going up, clearing, the alternate screen."""


def last_user_text(server: LoopbackServer) -> str:
    return json.dumps(server.bodies[-1]["messages"][-1], ensure_ascii=False)


async def prompted(app: TerminalProgram) -> None:
    """Until the prompt stands there, empty, and waits for keys."""
    await app.wait_for(lambda: app.text.rstrip().endswith(("\n❯", "\n>")) and _at_prompt(app))


def _at_prompt(app: TerminalProgram) -> bool:
    return 2004 in app.modes or b"\x1b" not in app.raw


async def asked(app: TerminalProgram, question: str = "Answer:") -> None:
    """Until a question stands there and takes keys for its answer."""
    await app.wait_for(lambda: app.text.rstrip().endswith(question))


async def leave(app: TerminalProgram) -> int:
    await prompted(app)
    await app.press("ctrl+d")
    return await app.end()


# ------------------------------------------------------------------------------------------------------ a conversation


async def test_a_reply_streams_in_block_by_block_and_nothing_printed_is_ever_changed(tmp_path: Path) -> None:
    first = "# A heading\n\nSome **bold** words.\n\n- one\n- two\n\nnext\n\n"
    replies = reply(think("hm"), say(first), pause(2), say("The *end*."))
    arguments = [*PLAIN, "--name", "the parser"]
    async with app_with(tmp_path, replies, arguments=arguments) as (app, server):
        await prompted(app)
        await app.submit("go on then")
        await app.wait_for("• two")
        assert "The end." not in app.text, "the beginning is shown while the rest is on its way"
        await app.wait_for("The end.")
        assert "Some bold words." in app.text
        assert "thought for" in app.text
        assert "go on then" in last_user_text(server)
        await app.wait_for("of the context")
        assert await leave(app) == 0
        assert app.is_restored
        assert "agentcli -r 'the parser'" in app.text
    assert not ADDRESSING.search(app.raw)


async def test_the_prompt_argument_is_sent_and_then_tab_completes_and_shift_tab_changes_the_mode(
    tmp_path: Path,
) -> None:
    async with app_with(tmp_path, reply("an answer"), arguments=[*PLAIN, "a question"]) as (app, server):
        (app.work / "a-rare-name.txt").write_text("")
        await app.wait_for("an answer")
        assert "> a question" in app.text
        await app.wait_for("of the context")
        await prompted(app)
        await app.type("/stat\t")
        await app.wait_for("❯ /status")
        await app.press("ctrl+u")
        await app.type("look at @rare\t")
        await app.wait_for("❯ look at @a-rare-name.txt")
        assert len(server.bodies) == 1
        await app.press("ctrl+u")
        await prompted(app)
        await app.press("shift+tab")
        await app.wait_for("accept edits ❯")
        await app.press("shift+tab")
        await app.wait_for("plan ❯")
        await app.press("ctrl+d")
        assert await app.end() == 0


async def test_text_typed_during_startup_is_sent_later_and_new_lines_and_pastes_send_nothing(tmp_path: Path) -> None:
    """Ctrl+J, Alt+Enter and a backslash before Enter start a new line."""
    async with app_with(tmp_path, reply("an answer"), reply("another one"), arguments=PLAIN) as (app, server):
        await app.wait_for(lambda: app.raw)
        await app.submit("a question")
        await app.wait_for("an answer")
        assert "a question" in last_user_text(server)
        await prompted(app)
        await app.type("one\nthe second\x1b\rthree\\\r")
        await app.paste("four\nfive")
        await app.wait_for("five")
        assert len(server.bodies) == 1
        await app.press("enter")
        await app.wait_for("another one")
        assert "one\\nthe second\\nthree\\nfour\\nfive" in last_user_text(server)
        assert await leave(app) == 0


# ---------------------------------------------------------------------------------------------------------- permissions


async def test_a_command_is_asked_about_and_allowed_denied_denied_with_text_stopped_or_always_allowed(
    tmp_path: Path,
) -> None:
    replies = [
        *(step for name in ("one", "two", "three") for step in (reply(call("Bash", command=f"touch {name}")), name)),
        reply(call("Bash", command="touch four")),
        *(reply(call("Bash", command="touch it")), reply(call("Bash", command="touch it")), reply("ready now")),
    ]
    async with app_with(tmp_path, *replies, arguments=PLAIN, rows=80) as (app, server):
        for name, answer, exists, told in (
            ("one", "y", True, ""),
            ("two", "n", False, '"is_error": true'),
            ("three", "n use the other file", False, "use the other file"),
        ):
            await prompted(app)
            count = len(server.bodies)
            await app.submit("go")
            await app.wait_for(f"$ touch {name}")
            await asked(app)
            await app.submit(answer)
            await app.wait_for(lambda count=count: len(server.bodies) == count + 2)
            assert (app.work / name).exists() == exists
            assert told in last_user_text(server)

        await prompted(app)
        await app.submit("go")
        await app.wait_for("$ touch four")
        await asked(app)
        await app.press("escape")
        await app.wait_for("Interrupted.")
        await prompted(app)
        assert not (app.work / "four").exists()
        assert len(server.bodies) == 7

        await app.submit("go")
        await app.wait_for("rule for always: Bash(touch it)")
        await app.wait_for("saved in .agentcli/settings.local.json of this project")
        await asked(app)
        await app.submit("p")
        await app.wait_for("ready now")  # the second call was not asked about
        saved = json.loads((app.work / ".agentcli/settings.local.json").read_text())
        assert saved["permissions"]["allow"] == ["Bash(touch it)"], "the rule that was shown, in the file named"
        assert await leave(app) == 0


async def test_a_change_is_shown_completely_before_it_is_made_and_again_only_by_diff(tmp_path: Path) -> None:
    content = "".join(f"line {number}\n" for number in range(60))
    write = reply(call("Write", file_path="new.txt", content=content))
    async with app_with(tmp_path, write, reply("done"), arguments=PLAIN, rows=200) as (app, _server):
        await prompted(app)
        await app.submit("go")
        await asked(app)
        assert b"Create this file?" in app.raw
        for number in (0, 30, 59):
            assert f"+line {number}\x1b".encode() in app.raw
        await app.submit("y")
        await app.wait_for("of the context")
        assert (app.work / "new.txt").read_text() == content
        assert app.raw.count(b"+line 30\x1b") == 1
        await prompted(app)
        await app.submit("/diff")
        await app.wait_for("1 file changed in this session, +60 −0:")
        await app.wait_for("@@ -0,0 +1,60 @@")
        # In the terminal's colours.
        await app.wait_for(lambda: re.search(rb"\x1b\[[\d;]*m\+line 30", app.raw[app.raw.rindex(b"/dev/null") :]))
        await app.submit("/diff all")
        await app.wait_for("not in a git repository")
        assert await leave(app) == 0


async def test_a_folder_with_settings_is_asked_about_first(tmp_path: Path) -> None:
    settings = tmp_path / "work" / ".agentcli" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"allow": ["Bash(touch it)"]}}')
    replies = (reply(call("Bash", command="touch it")), reply("done"))
    async with app_with(tmp_path, *replies, arguments=[*PLAIN, "go"]) as (app, _server):
        await app.wait_for("Trust this folder?")
        await asked(app)
        assert "Bash(touch it)" in app.text
        await app.submit("t")
        await app.wait_for("of the context")  # it was not asked about
        assert await leave(app) == 0
    async with app_with(tmp_path, arguments=PLAIN) as (app, _server):
        await prompted(app)
        assert "Trust" not in app.text
        assert await leave(app) == 0


# --------------------------------------------------------------------------------------------------------- interrupting


async def test_esc_and_ctrl_c_stop_the_work_and_ctrl_c_clears_the_prompt_and_twice_on_an_empty_one_quits(
    tmp_path: Path,
) -> None:
    replies = [
        step
        for key in ("escape", "ctrl+c")
        for step in (reply(say(f"Until {key}.\n\nAnd then\n\n"), pause(60), say("never")), reply(f"after {key}"))
    ]
    async with app_with(tmp_path, *replies, arguments=PLAIN, rows=50) as (app, server):
        for times, key in ((1, "escape"), (2, "ctrl+c")):
            await prompted(app)
            await app.submit("go")
            await app.wait_for(f"Until {key}.")
            await app.press(key)
            await app.wait_for(lambda times=times: app.text.count("Interrupted.") == times)
            # The connection is closed, and the next prompt is shown, at once.
            await app.wait_for(lambda times=times: len(server.closed_at) == times, seconds=5)
            await prompted(app)
            await app.submit("again")
            await app.wait_for(f"after {key}")
            assert f"Until {key}." in json.dumps(server.bodies[-1]["messages"])
        await prompted(app)
        await app.type("something")
        await app.wait_for("❯ something")
        await app.press("ctrl+c")
        await prompted(app)
        await app.press("ctrl+c")
        await app.wait_for("Ctrl+C again quits")
        await app.press("ctrl+c")
        assert await app.end() == 0
        assert app.is_restored
    assert b"never" not in app.raw


async def test_text_typed_during_work_is_queued_joined_or_kept_for_the_next_prompt(tmp_path: Path) -> None:
    async with app_with(
        tmp_path,
        reply(say("It begins.\n\nmore\n\n"), pause(2), say("end of one")),
        reply("end of two"),
        arguments=PLAIN,
    ) as (app, server):
        await prompted(app)
        await app.submit("first")
        await app.wait_for("It begins.")
        await app.submit("second")
        await app.wait_for("Queued: second")
        await app.type("a third")
        await app.wait_for("end of two")
        assert "> second" in app.text
        assert "second" in last_user_text(server)
        await app.wait_for(lambda: app.text.rstrip().endswith("❯ a third"))
        await app.press("ctrl+u")
        assert await leave(app) == 0


async def test_a_signal_ends_the_program_with_its_code_and_restores_the_terminal(tmp_path: Path) -> None:
    async with app_with(
        tmp_path, reply(call("Bash", command="sleep 60")), arguments=[*PLAIN, "--allowed-tools", "Bash", "--", "go"]
    ) as (app, _server):
        await app.wait_for("* Bash sleep 60")
        app.signal(signal.SIGTERM)
        assert await app.end() == 143
        assert app.is_restored


async def test_it_can_be_suspended_and_continued_at_the_prompt_and_during_work(tmp_path: Path) -> None:
    async with app_with(
        tmp_path, reply(say("It begins.\n\nmore\n\n"), pause(2), say("end of one")), arguments=PLAIN
    ) as (app, _server):
        await prompted(app)
        app.signal(signal.SIGSTOP)
        await app.wait_for(lambda: app.is_stopped)
        app.signal(signal.SIGCONT)
        await app.submit("go")
        await app.wait_for("It begins.")
        app.signal(signal.SIGSTOP)
        await app.wait_for(lambda: app.is_stopped)
        app.signal(signal.SIGCONT)
        await app.wait_for("end of one")
        assert await leave(app) == 0


# ------------------------------------------------------------------------------------------------- commands, sessions


async def test_slash_commands_and_shell_lines_with_their_progress_work_in_plain_mode(tmp_path: Path) -> None:
    wait = "until [ -e {} ]; do sleep 0.02; done"
    progress = f"printf 'begun\\nfetch 7%%'; {wait.format('a')}; printf '\\rfetch 100%%\\nnext\\n'; {wait.format('b')}"
    async with app_with(tmp_path, reply("the answer"), arguments=PLAIN, rows=80) as (app, _server):
        await prompted(app)
        await app.submit("/help")
        await app.wait_for("Summarise the conversation")
        await app.wait_for("Esc or Ctrl+C stops the work")
        await app.submit("/copy")
        await app.wait_for("There is no answer to copy yet.")
        await app.submit("/theme")
        await app.wait_for("/theme is not available here. Plain mode uses the terminal's own colours.")
        await app.submit("/nosuch")
        await app.wait_for("There is no command /nosuch.")
        await prompted(app)
        await app.submit("!echo from my $((40+2)) shell")
        await app.wait_for("from my 42 shell")
        await prompted(app)
        await app.submit(f"!{progress}")
        await app.wait_for(lambda: "begun" in app.screen)
        (app.work / "a").touch()
        await app.wait_for(lambda: "next" in app.screen)
        assert "fetch 100%" in app.screen, "progress is printed in its last state"
        assert "fetch 7%" not in app.screen
        (app.work / "b").touch()
        await prompted(app)
        await app.submit("hello")
        await app.wait_for("the answer")
        await prompted(app)
        await app.submit("/copy")
        await app.wait_for("Last answer: Sent 10 characters to the terminal's clipboard")
        assert b"\x1b]52;c;dGhlIGFuc3dlcg==\x07" in app.raw
        await app.submit("/exit")
        assert await app.end() == 0


async def test_a_session_is_chosen_from_a_numbered_list_and_clear_begins_a_new_one(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("the old answer"), reply("new one"), arguments=PLAIN, rows=50) as (app, server):
        await prompted(app)
        await app.submit("the old question")
        await app.wait_for("the old answer")
        await prompted(app)
        await app.submit("/clear")
        await app.wait_for("New session.")
        await prompted(app)
        await app.submit("something else")
        await app.wait_for("new one")
        assert "the old question" not in json.dumps(server.bodies[-1])
        await prompted(app)
        await app.submit("/resume")
        await asked(app, "or Enter for none):")
        assert re.search(r"^ +2 .* the old question", app.text, re.MULTILINE)
        await app.submit("2")
        await app.wait_for("> the old question")
        assert await leave(app) == 0


async def test_a_session_is_found_by_the_words_of_an_answer_and_the_prompt_is_named(tmp_path: Path) -> None:
    replies = reply("It was the giraffe."), reply("Nothing.")
    async with app_with(tmp_path, *replies, arguments=PLAIN, rows=50) as (app, _server):
        for words, answer in (("the old question", "giraffe"), ("something else", "Nothing.")):
            await prompted(app)
            await app.submit(words)
            await app.wait_for(answer)
        await prompted(app)
        await app.submit("/clear")
        await app.wait_for("New session.")
        await prompted(app)
        await app.submit("/sessions elephant")
        await app.wait_for("No session of this folder has these words.")
        await prompted(app)
        await app.submit("/sessions giraf")
        await asked(app, "or Enter for none):")
        assert re.search(r"^ +1 .* the old question: It was the giraffe\.", app.text, re.MULTILINE)
        await app.submit("1")
        await app.wait_for("Found in prompt 1: It was the giraffe.")
        assert await leave(app) == 0


async def test_a_startup_failure_is_one_sentence_on_a_restored_terminal(tmp_path: Path) -> None:
    async with app_with(tmp_path, arguments=[*PLAIN, "--continue"]) as (app, _server):
        assert await app.end() == 1
        assert app.is_restored
        assert "There is no conversation to continue in this folder." in app.text
    async with app_with(tmp_path, arguments=[*PLAIN, "--session-id", "x"]) as (app, _server):
        assert await app.end() == 2
        assert app.is_restored
        assert "--session-id must be a UUID" in app.text


# ------------------------------------------------------------------------------------------------- other terminals


async def test_forty_columns_are_enough_and_no_color_means_no_colours(tmp_path: Path) -> None:
    async with app_with(
        tmp_path,
        reply("Some words that are longer than the line is wide, so they are wrapped between words."),
        reply("`code` and **bold** in __init__.py", call("Bash", command="touch it")),
        reply("x"),
        arguments=PLAIN,
        environ={"NO_COLOR": "1"},
        columns=40,
        rows=40,
    ) as (app, _server):
        await prompted(app)
        await app.submit("what is longer than forty columns is wrapped")
        await app.wait_for("Some words that are longer than the line\n")
        await prompted(app)
        await app.submit("go")
        await asked(app)
        assert "code and bold in __init__.py" in app.text
        await app.submit("y")
        await app.wait_for((app.work / "it").exists)
        assert await leave(app) == 0
    codes = {
        int(code) for found in re.findall(rb"\x1b\[([\d;]*)m", bytes(app.raw)) for code in found.split(b";") if code
    }
    assert not codes & {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b]52;c;eA==\x07 \x9b2J [bold]x[/bold] [a](http://b\x1b[2J)"


async def test_hostile_text_of_model_and_tools_reaches_the_terminal_without_its_sequences(tmp_path: Path) -> None:
    async with app_with(
        tmp_path,
        reply(say(f"hostile {HOSTILE} text\n\nend"), call("Bash", command="cat hostile")),
        reply("quite done"),
        arguments=[*PLAIN, "--allowed-tools", "Bash(cat *)", "--", "go"],
    ) as (app, _server):
        (app.work / "hostile").write_text(f"file {HOSTILE}\n")
        await app.wait_for("quite done")
        assert "hostile red" in app.text
        assert "[bold]x[/bold]" in app.text
        assert await leave(app) == 0
    for sequence in (b"\x1b]0;", b"\x1b]52", b"\x1b[2J", b"\x9b", b"\x1b]8"):
        assert sequence not in app.raw.replace("❯".encode(), b""), sequence


async def test_a_dumb_terminal_gets_plain_mode_without_escape_bytes(tmp_path: Path) -> None:
    async with app_with(
        tmp_path,
        reply(think("hm"), say(f"# A heading\n\n{HOSTILE}\n"), call("Bash", command="touch it")),
        reply("all done"),
        reply(say("It begins."), pause(60)),
        environ={"TERM": "dumb"},
    ) as (app, server):
        await prompted(app)
        await app.submit("one \\")
        await app.submit("two")
        await asked(app)
        await app.submit("y")
        await app.wait_for("all done")
        assert "one \\ntwo" in json.dumps(server.bodies[0])
        await prompted(app)
        await app.submit("again")
        await app.wait_for("It begins.")
        await app.press("ctrl+c")
        await app.wait_for("Interrupted.")
        await asyncio.wait_for(server.client_closed(), 5)
        await prompted(app)
        await app.submit("/copy")
        await app.wait_for("this terminal has no clipboard.")
        await app.press("ctrl+d")
        assert await app.end() == 0
        assert (app.work / "it").exists()
        assert app.is_restored
    assert b"\x1b" not in app.raw
    assert b"\x9b" not in app.raw


async def test_the_setting_selects_plain_mode_or_the_app_which_share_one_history(tmp_path: Path) -> None:
    config = tmp_path / "home" / ".config" / "agentcli"
    config.mkdir(parents=True)
    (config / "settings.json").write_text('{"plain": true}')
    async with app_with(tmp_path, reply("an answer")) as (app, _server):
        await prompted(app)
        await app.submit("said in lines")
        await app.wait_for("an answer")
        assert await leave(app) == 0
    assert b"\x1b[?1049h" not in app.raw
    (config / "settings.json").write_text('{"plain": false}')
    async with app_with(tmp_path) as (app, _server):
        await app.ready()
        await app.press("up")
        await app.wait_for(lambda: app.box == "said in lines")
        assert await app.leave() == 0
