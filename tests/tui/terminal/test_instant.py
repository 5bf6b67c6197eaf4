"""The prompt before the app: it looks right, loses nothing and restores the terminal."""

from __future__ import annotations

import json
import os
import signal
import termios
import time
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.tui.prompt.box import IDLE_HINT
from agentcli.tui.terminal.instant import DEFAULT_LOOK, EchoedLine, Painter, begin, load_look, save_look
from tests.tui.terminal.pty_program import PtyProgram

LOOK = DEFAULT_LOOK | {"placeholder_text": "Ask", "status_text": "model · ~/project", "label_text": "plan"}


def painted(typed: bytes, columns: int = 30, rows: int = 15) -> str:
    screen = pyte.Screen(columns, rows)
    line, painter, stream = EchoedLine(), Painter(LOOK), pyte.Stream(screen)
    stream.feed(painter.whole(line, columns, rows))
    for index in range(len(typed)):
        line.feed(typed[index : index + 1])
        stream.feed(painter.box(line, columns, rows))
    return "\n".join(row.rstrip() for row in screen.display).lstrip("\n")


def text_of(typed: bytes) -> str:
    line = EchoedLine()
    line.feed(typed)
    return "".join(line.characters)


def test_the_box_is_at_the_bottom() -> None:
    assert painted(b"") == ("────────────────────── plan ──\n❯ Ask\n──────────────────────────────\nmodel · ~/project")


def test_a_low_window_has_no_lower_rule() -> None:
    assert painted(b"hi", 24, 10) == "──────────────── plan ──\n❯ hi\nmodel · ~/project"


def test_of_a_long_text_the_end_is_shown() -> None:
    assert painted("日本語 and then some more text that is longer".encode()).splitlines()[1] == (
        "❯ me more text that is longer"
    )


def test_a_box_that_shrinks_leaves_nothing_behind() -> None:
    assert painted(b"x" * 40 + b"\x7f" * 40 + b"y") == painted(b"y")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("héllo", "héllo"),
        ("ab\x7fc", "ac"),
        ("e\u0301\x7f", ""),
        ("👩\u200d👩\u200d👧\x7fx", "x"),
        ("some words\x17x", "some words"),
        ("abc\x1b[D\x1b[Dx", "abc"),
        ("a\x1b]11;rgb:00/00/00\x07b\x1b[24;80Rc\x1bOPd", "abcd"),
        ("a\x1b[200~one\rtwo\x1b[201~ three", "a"),
        ("\x1b[200~a\x03\x03b\x1b[201~\x04\x04", ""),
        ("first\rsecond", "first"),
        ("\r  x", "  x"),
    ],
)
def test_the_echo_shows_what_is_typed_at_the_end_and_leaves_other_edits_to_the_app(typed: str, text: str) -> None:
    assert text_of(typed.encode()) == text
    line = EchoedLine()
    for byte in typed.encode():
        line.feed(bytes([byte]))
    assert "".join(line.characters) == text


@pytest.mark.parametrize(
    ("typed", "code"),
    [(b"\x03", None), (b"\x03\x03", 130), (b"\x04\x04", 0), (b"\x03a\x03", None), (b"ab\x04\x04", None)],
)
def test_quitting_takes_the_same_key_twice(typed: bytes, code: int | None) -> None:
    assert EchoedLine().feed(typed) == code


def test_a_paste_of_megabytes_delays_nothing() -> None:
    line, painter = EchoedLine(), Painter(LOOK)
    began = time.process_time()
    for piece in (b"\x1b[200~", *[b"pasted text \r" * 5000] * 80, b"\x1b[201~", b"x\x7f"):
        line.feed(piece)
        painter.box(line, 80, 24)
    assert time.process_time() - began < 3  # 0.3 on an idle machine


@given(st.binary(max_size=200), st.integers(1, 60), st.integers(1, 30))
def test_no_input_and_no_size_breaks_the_picture(typed: bytes, columns: int, rows: int) -> None:
    line, painter = EchoedLine(), Painter(LOOK)
    line.feed(typed)
    picture = painter.whole(line, columns, rows)
    assert not set(picture) & {chr(code) for code in (*range(0x1B), 0x7F, *range(0x80, 0xA0))}


# ------------------------------------------------------------------------------------------------------------ look


def test_a_saved_look_is_restored(tmp_path: Path) -> None:
    look = DEFAULT_LOOK | {"rule": "38;2;1;2;3", "status_text": "opus · 日本"}
    path = tmp_path / "cache" / "instant.json"
    save_look(str(path), look)
    assert load_look(str(path)) == look
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff\xfe", b"[" * 8000, b'"x"', b"null"],
)
def test_a_broken_saved_look_falls_back_to_the_default(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "instant.json"
    path.write_bytes(content)
    assert load_look(str(path)) == DEFAULT_LOOK
    assert load_look(str(tmp_path / "missing")) == DEFAULT_LOOK
    assert DEFAULT_LOOK["placeholder_text"] == IDLE_HINT, "the hint stays when the app replaces the instant prompt"
    assert load_look(str(tmp_path)) == DEFAULT_LOOK


@pytest.mark.parametrize("value", ["1m\x1b]0;x\x07", "1;", "x", "1;2;3\n", 5, None, ["1"], "1234", "5" * 400])
def test_a_hostile_saved_look_changes_nothing(tmp_path: Path, value: object) -> None:
    path = tmp_path / "instant.json"
    path.write_text(json.dumps({"rule": value, "unknown": "1"}))
    assert load_look(str(path)) == DEFAULT_LOOK
    path.write_text(json.dumps({"status_text": "a\x1b[31m"}))
    assert load_look(str(path)) == DEFAULT_LOOK


# -------------------------------------------------------------------------------------------------- in a terminal


def test_a_late_terminal_reply_is_not_left_to_the_shell() -> None:
    def answer(data: bytes) -> bytes:
        return b"\x1b]11;rgb:0/0/0\x07" if b"\x1b[?1049l" in data else b""

    body = "from agentcli.tui.terminal import restore; restore.REPLY_SECONDS = 10\n"
    body += "started.finish(); started.restore.restore_terminal(); print('GONE', flush=True)"
    with PtyProgram(PROGRAM.format(body=body), answer=answer) as program:
        program.end()
        termios.tcflush(program.slave, termios.TCOFLUSH)
        os.set_blocking(program.slave, False)
        attributes = termios.tcgetattr(program.slave)
        attributes[3] &= ~termios.ICANON
        termios.tcsetattr(program.slave, termios.TCSANOW, attributes)
        with pytest.raises(BlockingIOError):
            os.read(program.slave, 100)


def test_there_is_no_instant_prompt_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    read_end, write_end = os.pipe()
    main_end, terminal_end = os.openpty()
    try:
        assert begin(read_end, write_end, LOOK) is None
        assert begin(terminal_end, write_end, LOOK) is None
        termios.tcsetwinsize(terminal_end, (4, 80))
        assert begin(terminal_end, terminal_end, LOOK) is None
        monkeypatch.setenv("TERM", "dumb")
        termios.tcsetwinsize(terminal_end, (24, 80))
        assert begin(terminal_end, terminal_end, LOOK) is None
    finally:
        for descriptor in (read_end, write_end, main_end, terminal_end):
            os.close(descriptor)


PROGRAM = """
import sys
from agentcli.tui.terminal import instant
started = instant.begin(0, 1, dict(instant.DEFAULT_LOOK, placeholder_text="Ask", status_text="state"))
def wait():
    import time
    while b"!" not in started._raw:
        time.sleep(0.005)
{body}
"""


def test_all_bytes_are_handed_over_in_order_and_modes_stay_on() -> None:
    body = (
        "wait(); typed = started.finish(); print('GOT', typed, started.finish(), sys.getswitchinterval(), flush=True)"
    )
    with PtyProgram(
        PROGRAM.format(body=body), answer=lambda data: b"\x1b]11;rgb:0/0/0\x07" if b"]11;?" in data else b""
    ) as program:
        program.until("Ask")
        program.send("héy \x1b[A")
        program.until("❯ héy")
        program.send("!")
        program.until(lambda: b"GOT" in program.raw)
        program.end()
        assert b"h\\xc3\\xa9y \\x1b[A!'" in program.raw
        assert b"b'' 0.005" in program.raw
        assert program.raw.startswith(b"\x1b[?1049h")
        # At the end of the process everything is put back.
        assert b"\x1b[?1049l" in program.raw[program.raw.index(b"GOT") :]
        assert termios.tcgetattr(program.slave) == program.attributes_before


def test_esc_stays_a_separate_key_whatever_is_typed_after_it() -> None:
    body = (
        "import time\n"
        "while not started._raw.endswith(b'\\x1b[27u'): time.sleep(0.005)\n"
        "print('ALONE', flush=True); wait(); print('GOT', started.finish(), started._line.characters, flush=True)"
    )
    with PtyProgram(PROGRAM.format(body=body)) as program:
        program.until("Ask")
        program.send("\x1b")
        program.until(lambda: b"ALONE" in program.raw)
        program.send("a!")
        program.until(lambda: b"GOT" in program.raw)
        program.end()
        assert b"\\x1b[27ua!' ['a', '!']" in program.raw


@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 0)])
def test_quitting_before_the_app_starts_restores_the_terminal(key: str, code: int) -> None:
    with PtyProgram(PROGRAM.format(body="import time; time.sleep(30)")) as program:
        program.until("Ask")
        program.send(key)
        program.until("again to quit")
        program.send(key)
        assert program.end() == code
        assert b"\x1b[?1049l" in program.raw
        assert b"\x1b[?2004l" in program.raw
        assert termios.tcgetattr(program.slave) == program.attributes_before


def test_an_exception_during_import_restores_the_terminal_and_is_reported() -> None:
    with PtyProgram(PROGRAM.format(body="wait(); raise RuntimeError('boom')")) as program:
        program.until("Ask")
        program.send("!")
        assert program.end() == 1
        assert program.raw.index(b"\x1b[?1049l") < program.raw.index(b"boom")
        assert termios.tcgetattr(program.slave) == program.attributes_before


def test_a_resize_redraws_the_prompt_in_its_new_place() -> None:
    with PtyProgram(PROGRAM.format(body="wait()"), columns=40, rows=20) as program:
        program.until("Ask")
        program.send("text")
        program.until("❯ text")
        program.resize(30, 10)
        os.kill(program.process.pid, signal.SIGWINCH)
        program.until(lambda: program.screen.display[8].startswith("❯ text"))
        program.until(lambda: program.text.strip("\n") == "─" * 30 + "\n❯ text\nstate")
