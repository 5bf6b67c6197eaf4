"""The clipboard: of the desktop through a program, of the terminal through OSC 52, of tmux through its own buffer.

A program reports whether it worked. A terminal does not answer: it may ignore the sequence, and so may tmux (setting
`set-clipboard`). So the sentence about a copy says what was confirmed and what was only sent.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentcli.core.processes.own_programs import desktop_environment, find_program, run_program
from agentcli.core.terminal import Terminal
from agentcli.core.text.format import counted

MAX_CLIPBOARD = 74_994
"""Maximum size in bytes of base64: the limit of xterm, the lowest of all terminals that have one."""
PROGRAM_SECONDS = 3.0

_BELL = "\x07"
_SCREEN_PIECE = 240
"""GNU screen limits the length of strings that it passes through."""
_TMUX_COMMANDS = (["tmux", "load-buffer", "-w", "-"], ["tmux", "load-buffer", "-"])
"""With `-w` tmux also sets the clipboard of its terminal, from version 3.2 on."""


def clipboard(terminal: Terminal, text: str) -> str:
    """OSC 52 sequence; "" if the text is too long for terminals."""
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if len(encoded) > MAX_CLIPBOARD or terminal.name in ("dumb", "linux"):
        return ""
    sequence = f"\x1b]52;c;{encoded}{_BELL}"
    if terminal.screen:
        return wrap_for_multiplexer(sequence, terminal)
    # tmux either handles it or passes it through, depending on two settings.
    return sequence + wrap_for_multiplexer(sequence, terminal) if terminal.tmux else sequence


async def copy(text: str, terminal: Terminal, write: Callable[[str], object], working_dirs: Iterable[Path] = ()) -> str:
    """Copy text to the clipboard. Return a sentence that says how, or why not. `write` writes to the terminal.

    Uses a desktop program if there is one. Over ssh that would be the clipboard of the wrong machine, so only the
    terminal is used. In tmux its own buffer is set too, which works whatever it does with the sequence.
    """
    size, folders = counted(len(text), "character"), tuple(working_dirs)
    program = "" if terminal.ssh else await asyncio.to_thread(_with_program, text, terminal, folders)
    tmux = await asyncio.to_thread(_with_tmux, text, terminal, folders) if os.environ.get("TMUX") else None
    sequence = clipboard(terminal, text)
    if sequence and tmux is not _TMUX_COMMANDS[0] and (terminal.tmux or not program):
        write(sequence)
    if program:
        return f"Copied {size} with {program}{' and to the tmux buffer' if tmux else ''}."
    if tmux:
        also = " Also sent to the terminal's clipboard, which does not confirm it."
        return f"Copied {size} to the tmux buffer.{also if sequence or tmux is _TMUX_COMMANDS[0] else ''}"
    if sequence:
        advice = " For tmux: set -g set-clipboard on." if terminal.tmux else ""
        return f"Sent {size} to the terminal's clipboard (OSC 52), which does not confirm it.{advice}"
    if len(text) > MAX_CLIPBOARD // 2:
        return f"Not copied: {size} are too many for the terminal. Install wl-copy, xclip or xsel."
    return "Not copied: this terminal has no clipboard. Install wl-copy, xclip or xsel."


def _with_program(text: str, terminal: Terminal, working_dirs: tuple[Path, ...]) -> str:
    """Returns the name of the program that took the text."""
    for command, encoding in terminal.clipboard_programs:
        if _run(command, text.encode(encoding, "replace"), terminal, working_dirs):
            return command[0]
    return ""


def _with_tmux(text: str, terminal: Terminal, working_dirs: tuple[Path, ...]) -> Sequence[str] | None:
    """Set the buffer of tmux. Returns the command that worked."""
    environ = {"TMUX": os.environ.get("TMUX", "")}
    data = text.encode("utf-8", "replace")
    return next((one for one in _TMUX_COMMANDS if _run(one, data, terminal, working_dirs, environ)), None)


def _run(
    command: Sequence[str],
    data: bytes,
    terminal: Terminal,
    working_dirs: tuple[Path, ...],
    environ: Mapping[str, str] | None = None,
) -> bool:
    found = find_program(command[0], terminal.search_path, working_dirs)
    if found is None:
        return False
    desktop = desktop_environment({**os.environ, "PATH": terminal.search_path or ""}, working_dirs)
    try:
        # Some of them keep running in the background to serve the text.
        done = run_program(
            [found, *command[1:]],
            cwd="/",
            environ={**desktop, **(environ or {})},
            seconds=PROGRAM_SECONDS,
            input=data,
            captures=False,
        )
    except OSError:
        return False
    return done.code == 0


def wrap_for_multiplexer(sequence: str, terminal: Terminal) -> str:
    """The sequence for the terminal around tmux or GNU screen."""
    if terminal.tmux:
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if terminal.screen:
        # Screen's string ends at the first ST, so ours must not contain one; BEL ends an OSC as well.
        sequence = sequence.replace("\x1b\\", _BELL)
        pieces = (sequence[start : start + _SCREEN_PIECE] for start in range(0, len(sequence), _SCREEN_PIECE))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence
