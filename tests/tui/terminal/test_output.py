"""A slow terminal never delays the app, a dead one is noticed, and no text can break out of its sequence."""

from __future__ import annotations

import os
import re
import threading
import time
import tty
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.terminal import Terminal
from agentcli.tui.terminal.output import (
    TerminalWriter,
    notification,
    open_unblocked,
    pop_title,
    progress,
    push_title,
    title,
)
from tests.core.test_terminal import terminal

FRAME = "\x1b[1;1Hframe"


class Pipe:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.ready = threading.Semaphore(0)
        self.gone = threading.Event()
        self.now = 0.0
        self.writer = TerminalWriter(
            self.write_end, ready=self.ready.release, gone=self.gone.set, clock=lambda: self.now
        )

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += os.read(self.read_end, count - len(data))
        return data


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.writer.silence()
    if pipe.writer.is_alive():
        pipe.writer.stop(0.01)
    for descriptor in (pipe.read_end, pipe.write_end):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_a_short_frame_is_written_without_the_thread_and_the_rest_by_it_in_order() -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    unblocked = open_unblocked(slave)
    assert os.get_blocking(slave), "for all other programs"
    writer = TerminalWriter(slave, ready=lambda: None, gone=lambda: None, unblocked=unblocked)
    writer.write(FRAME)
    assert os.read(master, 100) == FRAME.encode()
    writer.start()
    texts = [FRAME + letter * 5_000 for letter in "abcdefghijklmnopqrst"]
    for text in texts:
        writer.write(text)
    expected, data = "".join(texts).encode(), b""
    while len(data) < len(expected):
        data += os.read(master, len(expected))
    assert data == expected
    assert writer.stop(5)
    os.close(master)
    os.close(slave)


def test_output_keeps_its_order(pipe: Pipe) -> None:
    pipe.writer.start()
    for text in ("a", FRAME, "日", "\ud800"):
        pipe.writer.write(text)
    expected = f"a{FRAME}日?".encode()
    assert pipe.take(len(expected)) == expected
    assert pipe.writer.stop(5)


def test_a_terminal_that_is_behind_takes_no_frames_until_it_has_caught_up(pipe: Pipe) -> None:
    pipe.writer.start()
    assert pipe.writer.takes_frames()
    big = FRAME + "x" * 200_000  # more than a pipe holds
    pipe.writer.write(big)
    pipe.now = 1.0
    assert not pipe.writer.takes_frames()
    pipe.writer.write(FRAME)  # what was made of a frame before is never lost
    assert pipe.take(len(big) + len(FRAME)).decode() == big + FRAME
    assert pipe.ready.acquire(timeout=5)
    assert pipe.writer.takes_frames()
    pipe.writer.silence()
    assert not pipe.writer.takes_frames()


def test_a_lost_terminal_is_reported_once_and_later_writes_do_nothing(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    pipe.writer.start()
    pipe.writer.write("x")
    assert pipe.gone.wait(5)
    pipe.writer.write("y")
    assert pipe.writer.stop(5)


def test_stopping_does_not_wait_for_a_blocked_terminal(pipe: Pipe) -> None:
    pipe.writer.start()
    pipe.writer.write("x" * 1_000_000)
    began = time.monotonic()
    assert not pipe.writer.stop(0.05)
    assert time.monotonic() - began < 2
    # What is left is not written, even when the terminal comes back.
    while True:
        os.set_blocking(pipe.read_end, False)
        try:
            os.read(pipe.read_end, 65536)
        except BlockingIOError:
            break
    pipe.writer.join(5)
    assert not pipe.writer.is_alive()


def test_a_terminal_made_non_blocking_by_a_child_still_gets_everything(pipe: Pipe) -> None:
    os.set_blocking(pipe.write_end, False)
    pipe.writer.start()
    text = "x" * 300_000
    pipe.writer.write(text)
    assert pipe.take(len(text)).decode() == text


def test_a_title_is_pushed_set_and_popped() -> None:
    here = terminal()
    assert push_title(here) + title("agentcli · project", here) + pop_title(here) == (
        "\x1b[22;0t\x1b]2;agentcli · project\x07\x1b[23;0t"
    )
    nowhere = Terminal.from_environ({"TERM": "linux"})
    assert push_title(nowhere) + title("x", nowhere) + pop_title(nowhere) == ""


def test_progress_is_sent_only_to_terminals_that_support_it() -> None:
    assert progress(terminal(WT_SESSION="x"), busy=True) == "\x1b]9;4;3;0\x07"
    assert progress(terminal(), busy=True) == ""
    assert progress(terminal(TERM_PROGRAM="WezTerm", TERM_PROGRAM_VERSION="20240203-110809-5046fc22"), busy=True) == ""
    assert progress(terminal(TERM_PROGRAM="iTerm.app", TERM_PROGRAM_VERSION="3.6.6"), busy=False) == "\x1b]9;4;0;0\x07"
    assert progress(terminal(WT_SESSION="x", TMUX="y"), busy=True) == ""


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "\x07"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;agentcli: Done, ok\x07"),
        ({"VTE_VERSION": "7600"}, "\x1b]777;notify;agentcli;Done, ok\x07"),
        (
            {"KITTY_WINDOW_ID": "1"},
            "\x1b]99;i=agentcli:e=1:d=0;YWdlbnRjbGk=\x1b\\\x1b]99;i=agentcli:e=1:d=1:p=body;RG9uZSwgb2s=\x1b\\",
        ),
        ({"VTE_VERSION": "7600", "TMUX": "x"}, "\x1bPtmux;\x1b\x1b]777;notify;agentcli;Done, ok\x07\x1b\\\x07"),
    ],
)
def test_a_notification_uses_the_sequence_of_the_terminal(environ: dict[str, str], expected: str) -> None:
    assert notification(terminal(**environ), "agentcli", "Done; ok") == expected


@given(st.text(max_size=300))
def test_no_text_can_leave_its_sequence(text: str) -> None:
    assert re.fullmatch(r"\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x07", title(text, terminal()))
    for environ in ({"VTE_VERSION": "1"}, {"TERM_PROGRAM": "iTerm.app"}, {"KITTY_WINDOW_ID": "1"}):
        whole = notification(terminal(**environ), text, text)
        assert re.fullmatch(r"(?:\x1b\][^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\))+", whole)
