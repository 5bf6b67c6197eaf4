"""Terminal features are detected from the environment, and no text can break out of a sequence."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.terminal import Terminal
from agentcli.interactive.clipboard import MAX_CLIPBOARD, clipboard, copy
from agentcli.tui.terminal.surroundings import (
    notification,
    pop_title,
    progress,
    push_title,
    title,
)

XTERM = {"TERM": "xterm-256color"}


def terminal(**environ: str) -> Terminal:
    return Terminal.from_environ(XTERM | environ)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"TERM": "dumb"}, "dumb"),
        ({}, "dumb"),
        ({"TERM": "linux"}, "linux"),
        (XTERM, "unknown"),
        (XTERM | {"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        (XTERM | {"LC_TERMINAL": "iTerm2"}, "iterm"),
        (XTERM | {"TERM_PROGRAM": "Apple_Terminal"}, "apple"),
        ({"TERM": "xterm-kitty"}, "kitty"),
        (XTERM | {"KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "ghostty"),
        (XTERM | {"TERM_PROGRAM": "WezTerm"}, "wezterm"),
        (XTERM | {"WT_SESSION": "x"}, "windows"),
        (XTERM | {"VTE_VERSION": "7600"}, "vte"),
        ({"TERM": "foot-extra"}, "foot"),
        (XTERM | {"TERM_PROGRAM": "vscode"}, "vscode"),
    ],
)
def test_the_terminal_is_recognised_by_its_environment_variables(environ: dict[str, str], name: str) -> None:
    assert Terminal.from_environ(environ).name == name


def test_ssh_tmux_and_screen_are_detected() -> None:
    assert terminal(SSH_CONNECTION="1 2 3 4").ssh
    assert terminal(TMUX="/tmp/tmux").tmux
    assert terminal(STY="1.pts").screen
    assert not Terminal.from_environ({"TERM": "screen-256color", "TMUX": "x"}).screen


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"TERM": "dumb"}, "none"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1", "TMUX": "x"}, "256"),
    ],
)
def test_the_number_of_colours_is_detected(environ: dict[str, str], colours: str) -> None:
    assert Terminal.from_environ(environ).colours == colours


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


@given(st.text(max_size=300))
def test_no_text_can_leave_its_sequence(text: str) -> None:
    assert re.fullmatch(r"\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x07", title(text, terminal()))
    for environ in ({"VTE_VERSION": "1"}, {"TERM_PROGRAM": "iTerm.app"}, {"KITTY_WINDOW_ID": "1"}):
        whole = notification(terminal(**environ), text, text)
        assert re.fullmatch(r"(?:\x1b\][^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\))+", whole)


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
