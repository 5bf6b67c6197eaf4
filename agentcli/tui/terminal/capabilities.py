"""The sequences for what a terminal does beside showing text; what it can do is in `core/terminal.py`.

Window title, progress, notifications and the clipboard. The writers return strings; who writes them is the driver's
business. Every text that goes in is cleaned here: none of it can end a sequence or begin another.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from agentcli.core.own_programs import desktop_environment, run_program
from agentcli.core.plaintext import plain_line
from agentcli.core.plural import counted
from agentcli.core.programs import find_program
from agentcli.core.terminal import Terminal

LARGEST_CLIPBOARD = 74_994
"""Bytes in base64: what xterm takes, the most modest of those that take any."""
LONGEST_TITLE = 120
LONGEST_NOTICE = 240
PROGRAM_SECONDS = 3.0

_BELL = "\x07"
_SCREEN_PIECE = 240
"""GNU screen passes strings on only up to a length."""


def push_title(terminal: Terminal) -> str:
    return "\x1b[22;0t" if terminal.has_title else ""


def pop_title(terminal: Terminal) -> str:
    return "\x1b[23;0t" if terminal.has_title else ""


def title(text: str, terminal: Terminal) -> str:
    return f"\x1b]2;{plain_line(text, LONGEST_TITLE)}{_BELL}" if terminal.has_title else ""


def progress(terminal: Terminal, *, busy: bool) -> str:
    """In the taskbar or the tab; "" where it is not understood."""
    return f"\x1b]9;4;{3 if busy else 0};0{_BELL}" if terminal.has_progress else ""


def notification(terminal: Terminal, heading: str, body: str) -> str:
    """Of the desktop where the terminal has them, else the bell."""
    if terminal.name == "dumb":
        return _BELL
    # A semicolon separates fields in most of these forms.
    heading = plain_line(heading, LONGEST_NOTICE).replace(";", ",")
    body = plain_line(body, LONGEST_NOTICE).replace(";", ",")
    if terminal.name == "kitty":
        encoded = [base64.b64encode(text.encode("utf-8", "replace")).decode() for text in (heading, body)]
        sequence = f"\x1b]99;i=agentcli:e=1:d=0;{encoded[0]}\x1b\\\x1b]99;i=agentcli:e=1:d=1:p=body;{encoded[1]}\x1b\\"
    elif terminal.name in ("vte", "foot", "ghostty"):
        sequence = f"\x1b]777;notify;{heading};{body}{_BELL}"
    elif terminal.name in ("iterm", "wezterm"):
        sequence = f"\x1b]9;{heading}: {body}{_BELL}"
    else:
        return _BELL
    if terminal.tmux or terminal.screen:
        # They show a bell as an alert of the window, and may not let the other through.
        return _passed_through(sequence, terminal) + _BELL
    return sequence


def clipboard(terminal: Terminal, text: str) -> str:
    """OSC 52; "" when the text is longer than terminals take."""
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if len(encoded) > LARGEST_CLIPBOARD or terminal.name in ("dumb", "linux"):
        return ""
    sequence = f"\x1b]52;c;{encoded}{_BELL}"
    if terminal.screen:
        return _passed_through(sequence, terminal)
    # tmux either takes it itself or lets it through, by two different settings.
    return sequence + _passed_through(sequence, terminal) if terminal.tmux else sequence


async def copy(text: str, terminal: Terminal, write: Callable[[str], object], working_dirs: Iterable[Path] = ()) -> str:
    """Put a text on the clipboard; says how, or why not. `write` is for the driver.

    With a program of the desktop where there is one. Over ssh that would be the clipboard of the wrong machine, so
    there only the terminal is asked. Both are, in tmux: it can paste then as well.
    """
    size = counted(len(text), "character")
    sequence = clipboard(terminal, text)
    program = "" if terminal.ssh else await asyncio.to_thread(_with_program, text, terminal, tuple(working_dirs))
    if program:
        if sequence and terminal.tmux:
            write(sequence)
        return f"Copied {size} with {program}."
    if sequence:
        write(sequence)
        return f"Copied {size} through the terminal (OSC 52)."
    if len(text) > LARGEST_CLIPBOARD // 2:
        return f"Not copied: {size} are too many for the terminal. Install wl-copy, xclip or xsel."
    return "Not copied: this terminal has no clipboard. Install wl-copy, xclip or xsel."


def _with_program(text: str, terminal: Terminal, working_dirs: tuple[Path, ...]) -> str:
    for command, encoding in terminal.clipboard_programs:
        found = find_program(command[0], terminal.search_path, working_dirs)
        if found is None:
            continue
        try:
            # Some of them go on in the background to serve the text.
            done = run_program(
                [found, *command[1:]],
                cwd="/",
                environ=desktop_environment({**os.environ, "PATH": terminal.search_path or ""}, working_dirs),
                seconds=PROGRAM_SECONDS,
                input=text.encode(encoding, "replace"),
                captures=False,
            )
        except OSError:
            continue
        if done.code == 0:
            return command[0]
    return ""


def _passed_through(sequence: str, terminal: Terminal) -> str:
    if terminal.tmux:
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if terminal.screen:
        # The string of screen ends with the first ST, so ours must not have one; BEL ends an OSC as well.
        sequence = sequence.replace("\x1b\\", _BELL)
        pieces = (sequence[start : start + _SCREEN_PIECE] for start in range(0, len(sequence), _SCREEN_PIECE))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence
