"""The driver in a real terminal: keys in, frames out, and the terminal is always restored."""

from __future__ import annotations

import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
from textual import events
from textual.message import Message

from agentcli.tui.terminal.driver import escape_seconds
from agentcli.tui.terminal.input import InputFilter, Translation
from tests.tui.terminal.pty_program import PtyProgram

HOST = """
import os, sys, time
from pathlib import Path
from agentcli.tui.terminal import instant
started = instant.begin(0, 1, dict(instant.DEFAULT_LOOK, placeholder_text="Ask")) if {instant} else None
{before}
from textual.widgets import TextArea, Static
from agentcli.tui.app import PaintedApp
from agentcli.tui.terminal.driver import AgentDriver, Preloaded, TakenOver
from agentcli.tui.terminal.input import BackgroundColour

class Host(PaintedApp):
    CSS = "TextArea {{ height: 6; border: none; padding: 0; }} Static {{ height: 1; }} #big {{ height: 1fr; }}"
    BINDINGS = [
        ("escape", "say('escaped')"), ("f2", "hang"), ("f3", "crash"), ("f4", "flood"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def compose(self):
        yield Static("ready", id="said")
        yield Static("", id="colour")
        yield TextArea()
        yield Static("", id="big")

    def on_mount(self):
        self.query_one(TextArea).focus()

    def action_say(self, text):
        self.query_one("#said", Static).update(text)

    def action_hang(self):
        os.write(1, b"HANGING")
        while True:
            time.sleep(0.001)

    def on_resize(self, event):
        self.query_one("#big", Static).update(f"{{event.size.width}} wide")

    def action_crash(self):
        raise RuntimeError("boom")

    def action_flood(self):
        self.count = 0
        self.set_interval(0.001, self.flood)

    def flood(self):
        self.count += 1
        if self.count <= 200:
            self.query_one("#big", Static).update(f"{{self.count:4}} " * 400)
        elif self.count == 201:
            self.query_one("#big", Static).update("")
            self.action_say("flooded")

    def on_paste(self, event):
        self.action_say(f"pasted {{len(event.text)}}")
        event.prevent_default()

    def on_background_colour(self, event):
        self.query_one("#colour", Static).update(f"{{event.rgb}} light {{event.is_light}}")

    def on_taken_over(self):
        self.action_say("taken over")

log = Path(sys.argv[1]) if len(sys.argv) > 1 else None
app = Host(driver_class=AgentDriver.preload(Preloaded(started)))
app.run(mouse={mouse})
if app.failure:
    raise app.failure
if log:
    log.write_text("left in order")
os._exit(app.return_code)
"""


def host(*, instant: bool = False, mouse: bool = True, before: str = "", **rest: object) -> PtyProgram:
    return PtyProgram(HOST.format(instant=instant, mouse=mouse, before=before), **rest)  # type: ignore[arg-type]


def assert_restored(program: PtyProgram) -> None:
    end = program.raw.rindex(b"\x1b[?1049l")
    assert b"\x1b[?1049h" not in program.raw[end:]
    for mode in (1000, 1003, 1006, 1004, 2004):
        assert program.raw.rindex(b"\x1b[?%dl" % mode) > program.raw.rindex(b"\x1b[?1049h"), mode
    assert program.raw.rindex(b"\x1b[<u") < end
    assert program.raw.rindex(b"\x1b[?25h") > end
    assert termios.tcgetattr(program.slave) == program.attributes_before


def test_the_app_takes_over_from_the_instant_prompt_without_losing_or_reordering_a_key() -> None:
    def answer(data: bytes) -> bytes:
        return b"\x1b]11;rgb:ffff/ffff/eeee\x07" if b"]11;?" in data else b""

    with host(instant=True, answer=answer) as program:
        program.until("❯ Ask")
        program.send("on\x7f\x7fhéllo 日本\x7fx")
        # By whom it is shown, the instant prompt or the app already, is a matter of speed.
        program.until("héllo 日x")
        for character in " typed while it starts":
            program.send(character)
            program.read(0.002)
        program.until("taken over")
        program.until("héllo 日x typed while it starts")
        program.until("(255, 255, 238) light True")
        assert program.raw.count(b"\x1b[?1049h") == 1
        # The box of the instant prompt stood until a frame came that has what was typed.
        first_frame = program.raw.index(b"ready")
        before_text = program.raw[first_frame : program.raw.index("日x".encode(), first_frame)]
        assert b"\x1b[1;1H" not in before_text
        program.send("\x11")
        assert program.end() == 0
        assert_restored(program)


def test_keys_pastes_and_resizes_reach_the_app_and_garbage_does_not() -> None:
    with host() as program:
        program.until("ready")
        program.send("ab\x7fc\x1b[D\x1b[Dx\x1b[Fy")
        program.until("xacy")
        program.send(b"\x1b[?62c\x1b[99999999999999u\x1b[57344;1;55296u\x1b[M !!\x1b]52;c;aaa\x07\xff\x1b[<35;1;1M")
        program.send("\x1b")
        program.until("escaped")
        program.send("z")
        program.until("xacyz")
        program.send("\x1b[200~" + "line\r\n" * 4_000 + "\x1b[201~")
        program.until("pasted 20000")
        for columns in range(80, 100):
            program.resize(columns, 24)
        program.until("99 wide")
        program.send("\x11")
        assert program.end() == 0
        assert_restored(program)


def test_without_a_mouse_no_mouse_reporting_is_requested() -> None:
    with host(mouse=False) as program:
        program.until("ready")
        assert b"\x1b[?1000h" not in program.raw
        assert b"\x1b[?1003h" not in program.raw
        program.send("\x11")
        program.end()


def test_a_signal_ends_an_app_that_hangs_and_restores_the_terminal() -> None:
    with host() as program:
        program.until("ready")
        program.send("\x1bOQ")
        program.until(lambda: b"HANGING" in program.raw)
        program.process.send_signal(signal.SIGTERM)
        assert program.end() == 128 + signal.SIGTERM
        assert_restored(program)


def test_ctrl_c_pressed_repeatedly_ends_an_app_whose_handler_hangs() -> None:
    with host() as program:
        program.until("ready")
        program.send(b"\x1bOQ")
        program.until(lambda: b"HANGING" in program.raw)
        program.send("\x03")
        program.send("\x03")
        time.sleep(0.1)
        assert program.process.poll() is None
        program.send("\x03")
        assert program.end() == 128 + signal.SIGINT
        assert_restored(program)


def stopped(process: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_suspended_app_is_restored(number: signal.Signals) -> None:
    with host() as program:
        program.until("ready")
        program.send("some text")
        program.until("some text")
        program.process.send_signal(number)
        program.until(lambda: stopped(program.process))
        while program.read(0.05):
            pass
        if number == signal.SIGTSTP:
            assert_restored(program)
        program.screen.reset()
        program.process.send_signal(signal.SIGCONT)
        # Of a stopped app some of the first frame may only now be read: its text alone proves nothing.
        program.until(lambda: program.raw.count(b"\x1b[>25u") == 2 and "some text" in program.text)
        program.send(", and more")
        program.until("some text, and more")
        program.send("\x11")
        assert program.end() == 0
        assert_restored(program)


def test_a_terminal_that_stops_reading_gets_only_the_latest_frame_later() -> None:
    with host(columns=100, rows=30) as program:
        program.until("ready")
        program.send("\x1bOS")
        before = len(program.raw)
        time.sleep(0.8)  # The terminal takes nothing meanwhile: what waits for it then is bounded.
        program.until("flooded")
        program.until(lambda: " 200" not in program.text)
        assert len(program.raw) - before < 200 * 2000 / 2  # bytes of all frames; most were dropped
        program.send("ok")
        program.until("ok")
        program.send("\x11")
        assert program.end() == 0


# --------------------------------------------------------------------------------------------------- translation


def messages(data: bytes) -> list[Message]:
    source, translation = InputFilter(0.005), Translation()
    found = source.feed(data, 0.0)
    while source.deadline is not None:
        found += source.tick(source.deadline)
    return list(translation.messages(found))


def keys(data: bytes) -> list[tuple[str, str | None]]:
    return [(event.key, event.character) for event in messages(data) if isinstance(event, events.Key)]


@pytest.mark.parametrize(
    ("data", "key", "character"),
    [
        (b"a", "a", "a"),
        ("é".encode(), "é", "é"),
        (b"?", "question_mark", "?"),
        (b"\r", "enter", "\r"),
        (b"\n", "ctrl+j", "\n"),
        (b"\t", "tab", "\t"),
        (b"\x03", "ctrl+c", "\x03"),
        (b"\x7f", "backspace", "\x7f"),
        (b"\x1b", "escape", "\x1b"),
        (b"\x1b[A", "up", None),
        (b"\x1b[Z", "shift+tab", None),
        (b"\x1b[1;5C", "ctrl+right", None),
        (b"\x1b[13;2u", "shift+enter", None),
        (b"\x1b[13;5u", "ctrl+enter", None),
        (b"\x1b[27u", "escape", None),
        (b"\x1b[99;5u", "ctrl+c", None),
        (b"\x1b[97;;97u", "a", "a"),
        (b"\x1bf", "ctrl+right", None),
        (b"\x1bd", "alt+d", None),
        (b"\x1b\r", "alt+enter", None),
        (b"\x1b\xc3\xa9", "alt+é", None),
    ],
)
def test_keys_have_the_names_that_bindings_use(data: bytes, key: str, character: str | None) -> None:
    assert keys(data) == [(key, character)]


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0.002),
        ({"SSH_TTY": "/dev/pts/1"}, 0.025),
        ({"SSH_CONNECTION": "a", "ESCDELAY": "50"}, 0.05),
        ({"ESCDELAY": "x"}, 0.002),
        ({"ESCDELAY": "0"}, 0.001),
    ],
)
def test_a_lone_escape_is_delayed_briefly(environ: dict[str, str], seconds: float) -> None:
    assert escape_seconds(environ) == seconds
