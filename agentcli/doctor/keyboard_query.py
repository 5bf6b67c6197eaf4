"""Queries the terminal for the kitty keyboard protocol. The only check that writes to the terminal."""

from __future__ import annotations

import os
import re
import select
import time
from typing import Literal

KeyboardAnswer = Literal["kitty", "none", "silence"]

QUESTION = b"\x1b[?u\x1b[c"
"""Every terminal answers the second query; an answer to that one alone means no."""
_SECONDS = 0.5
_LAST = re.compile(rb"\x1b\[\?[0-9;]*c")
_PROTOCOL = re.compile(rb"\x1b\[\?[0-9]+u")


def ask_for_keyboard_protocol(source: int = 0, target: int = 1, seconds: float = _SECONDS) -> KeyboardAnswer:
    """Query the terminal. `silence`: no answer, or no terminal."""
    import termios
    import tty

    try:
        if not (os.isatty(source) and os.isatty(target)) or os.tcgetpgrp(source) != os.getpgrp():
            # In the background, a change of the terminal would stop us.
            return "silence"
        before = termios.tcgetattr(source)
    except (OSError, termios.error):
        return "silence"
    try:
        tty.setcbreak(source, termios.TCSANOW)
        os.write(target, QUESTION)
        return understood(_read(source, seconds))
    except (OSError, termios.error):
        return "silence"
    finally:
        # Discard late answers, which would appear at the shell's prompt.
        termios.tcsetattr(source, termios.TCSAFLUSH, before)


def understood(answer: bytes) -> KeyboardAnswer:
    if _PROTOCOL.search(answer):
        return "kitty"
    return "none" if _LAST.search(answer) else "silence"


def _read(source: int, seconds: float) -> bytes:
    answer, until = b"", time.monotonic() + seconds
    while not _LAST.search(answer):
        ready, _, _ = select.select([source], [], [], max(0.0, until - time.monotonic()))
        piece = os.read(source, 1024) if ready else b""
        if not piece:
            break
        answer += piece
    return answer
