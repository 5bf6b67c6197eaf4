"""Output never delays the app: a slow terminal misses frames and gets a whole one, a dead one is noticed."""

from __future__ import annotations

import os
import threading
import time
import tty
from collections.abc import Iterator

import pytest

from agentcli.tui.terminal.writer import TerminalWriter, open_unblocked

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


class Pty:
    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.unblocked = open_unblocked(self.slave)
        self.writer = TerminalWriter(
            self.slave, ready=lambda: None, gone=lambda: None, clock=lambda: 0.0, unblocked=self.unblocked
        )

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += os.read(self.master, count - len(data))
        return data


@pytest.fixture
def pty() -> Iterator[Pty]:
    pty = Pty()
    yield pty
    pty.writer.silence()
    if pty.writer.is_alive():
        pty.writer.stop(0.01)
    os.close(pty.master)
    os.close(pty.slave)


def test_a_short_frame_is_written_without_the_thread(pty: Pty) -> None:
    pty.writer.write(FRAME)  # and the thread was never started
    whole = FRAME.encode()
    assert pty.take(len(whole)) == whole
    os.close(pty.unblocked)


def test_the_terminal_stays_blocking_for_all_others(pty: Pty) -> None:
    assert os.get_blocking(pty.slave)
    assert not os.get_blocking(pty.unblocked)
    os.close(pty.unblocked)


def test_what_the_terminal_does_not_take_at_once_is_written_by_the_thread_in_order(pty: Pty) -> None:
    pty.writer.start()
    texts = [FRAME + letter * 5_000 for letter in "abcdefghijklmnopqrst"]
    for text in texts:
        pty.writer.write(text)
    expected = "".join(texts).encode()
    assert pty.take(len(expected)) == expected
    assert pty.writer.stop(5)
