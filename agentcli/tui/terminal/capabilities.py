"""Escape sequences for terminal features besides text; `core/terminal.py` has what each terminal supports.

Window title, progress, notifications and the clipboard. The functions return strings that the driver writes. All text
is cleaned here, so that it cannot end a sequence or begin another.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from agentcli.core.processes.own_programs import desktop_environment, run_program
from agentcli.core.processes.programs import find_program
from agentcli.core.terminal import Terminal
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted

LARGEST_CLIPBOARD = 74_994
"""Maximum size in bytes of base64: the limit of xterm, the lowest of all terminals that have one."""
LONGEST_TITLE = 120
LONGEST_NOTICE = 240
PROGRAM_SECONDS = 3.0

_BELL = "\x07"
_SCREEN_PIECE = 240
"""GNU screen limits the length of strings that it passes through."""


def push_title(terminal: Terminal) -> str:
    return "\x1b[22;0t" if terminal.has_title else ""


def pop_title(terminal: Terminal) -> str:
    return "\x1b[23;0t" if terminal.has_title else ""


def title(text: str, terminal: Terminal) -> str:
    return f"\x1b]2;{plain_line(text, LONGEST_TITLE)}{_BELL}" if terminal.has_title else ""


def progress(terminal: Terminal, *, busy: bool) -> str:
    """Progress in the taskbar or tab; "" if the terminal does not support it."""
    return f"\x1b]9;4;{3 if busy else 0};0{_BELL}" if terminal.has_progress else ""


def notification(terminal: Terminal, heading: str, body: str) -> str:
    """Desktop notification if the terminal supports it, otherwise the bell."""
    if terminal.name == "dumb":
        return _BELL
    # A semicolon separates fields in most of these sequences.
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
        # They show the bell as an alert of the window, and may not pass the sequence through.
        return _passed_through(sequence, terminal) + _BELL
    return sequence


def clipboard(terminal: Terminal, text: str) -> str:
    """OSC 52 sequence; "" if the text is too long for terminals."""
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if len(encoded) > LARGEST_CLIPBOARD or terminal.name in ("dumb", "linux"):
        return ""
    sequence = f"\x1b]52;c;{encoded}{_BELL}"
    if terminal.screen:
        return _passed_through(sequence, terminal)
    # tmux either handles it or passes it through, depending on two settings.
    return sequence + _passed_through(sequence, terminal) if terminal.tmux else sequence


async def copy(text: str, terminal: Terminal, write: Callable[[str], object], working_dirs: Iterable[Path] = ()) -> str:
    """Copy text to the clipboard. Return a sentence that says how, or why not. `write` writes to the driver.

    Uses a desktop program if there is one. Over ssh that would be the clipboard of the wrong machine, so only the
    terminal is used. In tmux both are used, so that tmux can paste too.
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
            # Some of them keep running in the background to serve the text.
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
        # Screen's string ends at the first ST, so ours must not contain one; BEL ends an OSC as well.
        sequence = sequence.replace("\x1b\\", _BELL)
        pieces = (sequence[start : start + _SCREEN_PIECE] for start in range(0, len(sequence), _SCREEN_PIECE))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence
