"""Terminal features are detected from the environment."""

from __future__ import annotations

import pytest

from agentcli.core.terminal import Terminal

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
