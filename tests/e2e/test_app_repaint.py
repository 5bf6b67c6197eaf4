"""What the app writes to the terminal: little, and never less than the screen needs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.bench.tui_markdown import reply as markdown_text
from tests.bench.tui_pty import paced_reply
from tests.support.emulator import Emulator, QuickStream
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio

THE_END = "This is where it ends."
WIDE = "漢字 in a row, 👍 and 👩\u200d👩\u200d👧, ❤\ufe0f, e\u0301 and 한국어, and more words so that it must wrap. "
IDLE = "Ask anything"
COST_SHOWN = "· $0"
"""In the status line, once nothing more of a turn is painted."""

Look = list[list[tuple[object, ...]]]


def look_of(emulator: Emulator) -> Look:
    assert emulator.display
    rows = [[tuple(emulator.buffer[y][x]) for x in range(emulator.columns)] for y in range(emulator.lines)]
    # Of a space in an ordinary look nothing but its background is seen.
    return [[(" ", cell[2]) if cell[0] == " " and not any(cell[5:9]) else cell for cell in row] for row in rows]


async def assert_is_quiet(app: TerminalProgram) -> None:
    """Nothing is painted, and nothing is left to do, for three looks in a row."""
    written = [0, 1, 2]

    def is_quiet() -> bool:
        if app.is_asleep:
            written[:] = [*written[1:], len(app.raw)]
        else:
            written[:] = [0, 1, 2]
        return len(set(written)) == 1

    await app.wait_for(is_quiet)


async def assert_redrawing_changes_nothing(app: TerminalProgram) -> None:
    """The screen is the same after Ctrl+L, which paints all of it again."""
    await assert_is_quiet(app)
    before, written = look_of(app.emulator), len(app.raw)
    await app.press("ctrl+l")
    await app.wait_for(lambda: len(app.raw) - written > 500)
    await app.wait_for(lambda: look_of(app.emulator) == before)


def stands_above(app: TerminalProgram, upper: str, lower: str) -> bool:
    return any(upper in above and below.startswith(lower) for above, below in pairwise(app.screen))


@pytest.mark.parametrize(("columns", "rows", "theme"), [(100, 30, "dark"), (60, 24, "light")])
async def test_streaming_scrolling_typing_and_dialogs_leave_no_stale_cell(
    tmp_path: Path, columns: int, rows: int, theme: str
) -> None:
    text = f"{WIDE * 3}\n\n{markdown_text(3000)}\n\n{WIDE * 2}\n\n{THE_END}\n"
    streamed = paced_reply(text, 0.004, 120)
    question = reply(call("Bash", command="touch a-file"))
    async with app_with(
        tmp_path,
        streamed,
        question,
        reply("Nothing was done."),
        columns=columns,
        rows=rows,
        environ={"AGENTCLI_THEME": theme},
    ) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for(lambda: THE_END in app.text and COST_SHOWN in app.screen[-1] and IDLE in app.box)
        await assert_redrawing_changes_nothing(app)
        for _page in range(3):
            before = app.text
            await app.press("pageup")
            await app.wait_for(lambda before=before: app.text != before)
        await assert_redrawing_changes_nothing(app)
        await app.type(f"\x1b[<65;{columns // 2};3M" * 2)
        await app.type("typed 漢字 while scrolled up")
        await app.wait_for(lambda: app.box.endswith("up"))
        await assert_redrawing_changes_nothing(app)
        await app.press("ctrl+u", "pagedown", "pagedown", "pagedown")
        await app.submit("and now")
        await app.wait_for(lambda: stands_above(app, "waits for your answer", "─── Run this command?"))
        await assert_redrawing_changes_nothing(app)
        await app.answer("escape")
        await app.wait_for(lambda: "Interrupted. What should be done instead?" in app.text and IDLE in app.box)
        await assert_redrawing_changes_nothing(app)
        assert await app.leave() == 0


async def test_a_streamed_reply_takes_few_bytes_and_typing_next_to_none(tmp_path: Path) -> None:
    text = f"{markdown_text(8000)}\n\n{THE_END}\n"
    streamed = paced_reply(text, 0.01, 120)
    async with app_with(tmp_path, streamed, columns=120, rows=40) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("go")
        before = len(app.raw)
        await app.wait_for(lambda: THE_END in app.text and COST_SHOWN in app.screen[-1] and IDLE in app.box)
        assert len(app.raw) - before < 12 * len(text)  # Whole frames would be about sixty for each character.
        before = len(app.raw)
        await app.type("x" * 20)
        await app.wait_for(lambda: app.box == "x" * 20)
        assert len(app.raw) - before < 20 * 100
        assert await app.leave() == 0


async def test_whole_rows_are_written_where_the_user_wants_that(tmp_path: Path) -> None:
    async with app_with(tmp_path, environ={"AGENTCLI_REPAINT": "whole"}) as (app, _server):
        await app.ready()
        await app.type("some text")
        await app.wait_for(lambda: app.box == "some text")
        before = len(app.raw)
        await app.type("x")
        await app.wait_for(lambda: app.box == "some textx")
        assert b"some textx" in app.raw[before:]
        assert await app.leave() == 0


# ------------------------------------------------------------------------------------------------------------- tmux


class Tmux:
    """A terminal that was written by others."""

    def __init__(self, folder: Path, command: str, environ: dict[str, str], columns: int, rows: int) -> None:
        self._call = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._size = (columns, rows)
        self._environ = environ
        self._run("new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._call, *arguments], env=self._environ, capture_output=True, text=True, check=True)
        return done.stdout

    def keys(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def look(self) -> Look:
        emulator = Emulator(*self._size)
        QuickStream(emulator).feed(self._run("capture-pane", "-p", "-e").rstrip("\n").replace("\n", "\r\n").encode())
        # tmux 3.3 shows the background of cells that were erased behind a row's last character, but does not name it.
        return [[cell if cell[0] != " " else (" ",) for cell in row] for row in look_of(emulator)]

    def settled(self) -> Look:
        """The look once it is the same for five looks in a row: a status or a scroll may still be on its way."""
        looks = [self.look()]

        def is_settled(_screen: str) -> bool:
            looks.append(self.look())
            return len(looks) > 5 and all(look == looks[-1] for look in looks[-5:])

        self.until(is_settled)
        return looks[-1]

    def until(self, holds: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + 60
        while not holds(screen := self.screen()):
            assert time.monotonic() < deadline, screen
            time.sleep(0.02)
        return screen

    def close(self) -> None:
        self._run("kill-server")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
async def test_tmux_shows_the_same_after_a_redraw(tmp_path: Path) -> None:
    import anyio

    text = f"{WIDE * 3}\n\n{markdown_text(3000)}\n\n{WIDE}\n\n{THE_END}\n"
    streamed = paced_reply(text, 0.004, 120)

    def work(url: str) -> None:
        (tmp_path / "home").mkdir()
        environ = {
            "HOME": str(tmp_path / "home"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "LANG": "C.UTF-8",
            "COLORTERM": "truecolor",
            "ANTHROPIC_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": url,
            "AGENTCLI_SESSION_TITLES": "off",
            "AGENTCLI_SANDBOX": "off",
        }
        tmux = Tmux(tmp_path, f"cd {tmp_path / 'home'} && {shlex.quote(sys.executable)} -m agentcli", environ, 90, 30)
        try:
            tmux.until(lambda screen: "opus" in screen)
            tmux.keys("go", "Enter")
            tmux.until(lambda screen: THE_END in screen and COST_SHOWN in screen)
            for key, is_above in (("PPage", True), ("NPage", False)):
                tmux.keys(key)
                tmux.until(lambda screen: ("↓ end" in screen) == is_above)  # noqa: B023 -- called at once
                tmux.keys("1")
                tmux.until(lambda screen: "❯ 1" in screen)
                before = tmux.settled()
                # Behind the redraw something is typed, whose echo says that it is done.
                tmux.keys("C-l", "2")
                tmux.until(lambda screen: "❯ 12" in screen)
                tmux.keys("BSpace")
                tmux.until(lambda _screen: tmux.look() == before)  # noqa: B023 -- called at once
                tmux.keys("C-u")
        finally:
            tmux.close()

    async with LoopbackServer(streamed) as server:
        await anyio.to_thread.run_sync(work, server.url)
