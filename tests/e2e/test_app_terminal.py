"""The app and the terminal around it: sizes, signals, suspension, crashes, and terminals that can do little."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.terminal import TerminalProgram, app_with, processes_in

pytestmark = pytest.mark.anyio

RULE = re.compile(r"─+")
SGR = re.compile(rb"\x1b\[([0-9;:]*)m")


def is_laid_out(app: TerminalProgram, columns: int, rows: int) -> bool:
    """The box and the status line are where they belong, and as wide as the screen."""
    screen = app.screen
    rules = [row for row in screen if RULE.fullmatch(row)]
    return len(screen) == rows and "opus" in screen[-1] and bool(rules) and all(len(rule) == columns for rule in rules)


# ------------------------------------------------------------------------------------------------------------- sizes


async def test_the_app_fits_every_size_recovers_from_a_too_small_one_and_follows_many_resizes(tmp_path: Path) -> None:
    replies = (reply("an answer that is a little longer than forty characters"), reply("the second answer"))
    async with app_with(tmp_path, *replies, columns=120, rows=40) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("forty characters")
        await app.type("a draft")
        for columns, rows in ((80, 24), (40, 10), (20, 5)):
            app.resize(columns, rows)
            await app.wait_for(lambda columns=columns, rows=rows: is_laid_out(app, columns, rows))
            await app.wait_for(lambda: app.box == "a draft")
        app.resize(19, 4)
        await app.wait_for("too small")
        app.resize(1, 1)
        await app.type(" goes on")
        app.resize(120, 40)
        await app.wait_for("forty characters")
        await app.wait_for(lambda: is_laid_out(app, 120, 40))
        await app.wait_for(lambda: app.box == "a draft goes on")

        await app.press("enter")
        for number in range(200):
            app.resize(40 + number % 60, 10 + number % 20)
            os.kill(app.process.pid, signal.SIGWINCH)
        app.resize(90, 27)
        await app.wait_for("the second answer")
        await app.wait_for(lambda: is_laid_out(app, 90, 27))
        await app.type("still there")
        await app.wait_for(lambda: app.box == "still there")
        assert await app.leave() == 0


# ----------------------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
async def test_a_signal_ends_app_and_children_and_restores_the_terminal(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    async with app_with(
        tmp_path, reply(call("Bash", command="sleep 300 & sleep 300")), arguments=["--allowedTools", "Bash"]
    ) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for(lambda: len(processes_in(app.work)) >= 3)
        app.signal(number)
        assert await app.end() == code
        assert app.is_restored


async def test_closing_the_window_ends_app_and_children(tmp_path: Path) -> None:
    async with app_with(
        tmp_path, reply(call("Bash", command="sleep 300 & sleep 300")), arguments=["--allowedTools", "Bash"]
    ) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for(lambda: len(processes_in(app.work)) >= 3)
        app.hang_up()
        assert await app.end() == 129


async def test_suspending_restores_the_terminal_and_continuing_repaints_the_app(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("an answer"), reply("another")) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("an answer")
        await app.wait_for(lambda: "· $0" in app.screen[-1])  # what it cost, not the estimate before
        await app.type("a draft")
        await app.wait_for(lambda: app.box == "a draft")
        before = app.text
        for how in ("key", "signal"):
            if how == "key":
                await app.press("ctrl+z")
            else:
                app.signal(signal.SIGTSTP)
            await app.wait_for(lambda: app.is_stopped)
            await app.wait_for(lambda: app.is_restored)
            app.signal(signal.SIGCONT)
            await app.wait_for(lambda: app.text == before)
            assert 1049 in app.modes, how
        await app.press("enter")
        await app.wait_for("another")
        assert await app.leave() == 0
        assert app.is_restored


# ------------------------------------------------------------------------------------------------------------ a crash

_CRASHING = """
def fail(*_, **__):
    raise RuntimeError("boom sk-ant-api03-abcdefghijklmnop")
{patch}
from agentcli.__main__ import main
main()
"""
_IN_A_KEY = "from agentcli.tui.chat import ChatScreen; ChatScreen.action_details = fail"
_IN_THE_START = "from agentcli.tui.startup import preferences; preferences.load_preferences = fail"


@pytest.mark.parametrize(
    ("patch", "starts"), [(_IN_A_KEY, True), (_IN_THE_START, False)], ids=["in a key", "in the start"]
)
async def test_a_crash_restores_the_terminal_and_names_the_report(tmp_path: Path, patch: str, starts: bool) -> None:
    async with app_with(tmp_path, command=("-c", _CRASHING.format(patch=patch))) as (app, _server):
        if starts:
            await app.ready()
            await app.press("ctrl+o")
        assert await app.end() == 1
        assert app.is_restored
        last = bytes(app.raw).rpartition(b"\x1b[?1049l")[2]
        for what in (b"\x1b[?1000l", b"\x1b[?2004l", b"\x1b[<u"):
            assert what in app.raw
        assert b"\x1b[?25h" in last
        told = "".join(app.screen)
        assert "boom" in told
        assert "Traceback" not in told
        report = next(app.home.rglob("agentcli-crash-*.txt"))
        assert str(report) in told
        assert "RuntimeError: boom" in report.read_text()
        assert "abcdefghijklmnop" not in report.read_text() + told
        assert report.stat().st_mode & 0o777 == 0o600


# ------------------------------------------------------------------------------------------- terminals that do little


async def test_with_no_color_nothing_written_has_a_colour(tmp_path: Path) -> None:
    answer = "# A heading\n\n`code` and\n\n```python\nprint('code')\n```\n\n```diff\n-a\n+b\n```\n"
    async with app_with(
        tmp_path, reply(answer), reply(call("Bash", command="touch it")), environ={"NO_COLOR": "1"}
    ) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("print('code')")
        await app.submit("again")
        await app.wait_for("Run this command?")
        await app.press("escape")
        await app.wait_for("Interrupted")
        await app.submit("/theme")
        await app.wait_for("─── Theme")
        await app.press("down", "escape")
        await app.wait_for("─── Theme", gone=True)
        assert await app.leave() == 0
    numbers = {number for found in SGR.findall(bytes(app.raw)) for number in re.split(b"[;:]", found) if number}
    colours = {int(number) for number in numbers} & {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}
    assert colours == set()


async def test_a_startup_failure_is_one_sentence_on_a_restored_terminal(tmp_path: Path) -> None:
    async with app_with(tmp_path, arguments=["--continue"]) as (app, _server):
        await app.type("typed")
        assert await app.end() == 1
        assert app.is_restored
        assert "There is no conversation to continue in this folder." in app.text
    async with app_with(tmp_path) as (app, _server):
        await app.wait_for(lambda: app.box == "typed")  # it was not lost
        assert await app.leave() == 0


async def test_a_missing_terminal_is_reported_in_one_sentence(program: Program) -> None:
    ended = await program.run()
    assert ended.code == 2
    assert "\x1b" not in ended.out + ended.err
    assert len(ended.err.splitlines()) == 1


GARBAGE = (
    b"\xff\xfe\x80",  # no UTF-8
    b"\x1b[<0;5;5M\x1b[<0;5;5m\x1b[<64;999;999M",  # mouse, in and out of the screen
    b"\x1b[I\x1b[O",  # focus comes and goes: what is dropped on a window without it counts as well
    b"\x1b[12;40R\x1b[?62;22c\x1b[?2048;0$y",  # replies to queries of another program
    b"\x1bP1+r544e=78\x1b\\",
    b"\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
)


async def test_terminal_garbage_types_nothing_and_keys_of_any_script_do(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("答え")) as (app, server):
        await app.ready()
        for piece in GARBAGE:
            await app.type(piece)
        await app.type("日本語 e\u0301")
        await app.type(b"\x1b[200~pas")  # a paste that is cut in two
        await app.type(b"ted\x1b[201~!")
        await app.wait_for(lambda: app.box.replace("\u0301", "") in ("日本語 epasted!", "日本語 épasted!"))
        await app.press("enter")
        await app.wait_for("答え")
        assert server.bodies[0]["messages"][-1]["content"][-1]["text"].endswith("日本語 e\u0301pasted!")
        assert await app.leave() == 0
