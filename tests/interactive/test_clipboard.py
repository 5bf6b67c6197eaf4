"""Copying: with a program of the desktop, through tmux, or with a sequence of the terminal; it says which."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

import pytest

from agentcli.core.terminal import Terminal
from agentcli.interactive.clipboard import MAX_CLIPBOARD, clipboard, copy
from tests.core.test_terminal import terminal


def test_copying_through_the_terminal_uses_its_clipboard_sequence() -> None:
    encoded = base64.b64encode("héllo".encode()).decode()
    plain = f"\x1b]52;c;{encoded}\x07"
    assert clipboard(terminal(), "héllo") == plain
    assert clipboard(terminal(TMUX="x"), "héllo") == f"{plain}\x1bPtmux;\x1b\x1b]52;c;{encoded}\x07\x1b\\"
    assert clipboard(terminal(STY="x"), "héllo") == f"\x1bP{plain}\x1b\\"
    assert clipboard(terminal(), "x" * MAX_CLIPBOARD) == ""


def test_a_long_text_passes_through_screen_in_pieces() -> None:
    text = "x" * 3000
    pieces = re.findall(r"\x1bP(.*?)\x1b\\", clipboard(terminal(STY="x"), text))
    assert max(map(len, pieces)) <= 240
    assert "".join(pieces) == clipboard(terminal(), text)


def program(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def copied(text: str, here: Terminal) -> tuple[str, str]:
    written: list[str] = []
    return asyncio.run(copy(text, here, written.append)), "".join(written)


def test_copying_uses_a_program_of_the_desktop(tmp_path: Path) -> None:
    path = program(tmp_path, "wl-copy", f"cat > {tmp_path}/clip; sleep 60 & exit 0")
    said, written = copied("日本 text", terminal(WAYLAND_DISPLAY="w", PATH=path))
    assert (said, written) == ("Copied 7 characters with wl-copy.", "")
    assert (tmp_path / "clip").read_text() == "日本 text"


def test_copying_over_ssh_goes_through_the_terminal(tmp_path: Path) -> None:
    path = program(tmp_path, "wl-copy", "exit 0")
    said, written = copied("a", terminal(WAYLAND_DISPLAY="w", SSH_TTY="/dev/pts/1", PATH=path))
    assert said == "Sent 1 character to the terminal's clipboard (OSC 52), which does not confirm it."
    assert written == "\x1b]52;c;YQ==\x07"


@pytest.mark.parametrize("version", ["3.4", "2.9"])
def test_in_tmux_its_own_buffer_is_set_and_the_rest_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    refuses = '[ "$2" = -w ] && exit 1; ' if version == "2.9" else ""
    path = program(tmp_path, "tmux", f'{refuses}echo "$TMUX $*" > {tmp_path}/call; cat > {tmp_path}/buffer')
    said, written = copied("日本", terminal(TMUX="x", SSH_TTY="/dev/pts/1", PATH=path))
    assert said == (
        "Copied 2 characters to the tmux buffer. Also sent to the terminal's clipboard, which does not confirm it."
    )
    assert (tmp_path / "buffer").read_text() == "日本"
    call = "load-buffer -w -" if version == "3.4" else "load-buffer -"
    assert (tmp_path / "call").read_text() == f"/tmp/tmux-0/default,1,0 {call}\n"
    assert bool(written) is (version == "2.9"), "a newer tmux passes it on itself"


def test_without_the_tmux_program_the_sequence_is_sent_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "x")
    said, written = copied("a", terminal(TMUX="x", PATH=str(tmp_path)))
    assert said.endswith("which does not confirm it. For tmux: set -g set-clipboard on.")
    assert written


def test_a_failing_program_falls_back_to_the_terminal(tmp_path: Path) -> None:
    path = program(tmp_path, "xclip", "exit 1")
    said, written = copied("a", terminal(DISPLAY=":0", PATH=f"{tmp_path}:{path.split(':')[0]}"))
    assert said == "Sent 1 character to the terminal's clipboard (OSC 52), which does not confirm it."
    assert written


def test_a_failed_copy_is_reported_with_advice() -> None:
    said, written = copied("x" * 100_000, terminal(SSH_TTY="x"))
    assert said == ("Not copied: 100,000 characters are too many for the terminal. Install wl-copy, xclip or xsel.")
    assert written == ""
    said, _ = copied("x", Terminal.from_environ({"TERM": "linux", "PATH": ""}))
    assert said == "Not copied: this terminal has no clipboard. Install wl-copy, xclip or xsel."
