"""Escape sequences for terminal features besides text; `core/terminal.py` has what each terminal supports.

Window title, progress and notifications; the clipboard is in `interactive/clipboard.py`. The functions return strings
that the driver writes. All text is cleaned here, so that it cannot end a sequence or begin another.
"""

from __future__ import annotations

import base64

from agentcli.core.terminal import Terminal
from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.clipboard import passed_through

MAX_TITLE = 120
MAX_NOTICE = 240

_BELL = "\x07"


def push_title(terminal: Terminal) -> str:
    return "\x1b[22;0t" if terminal.has_title else ""


def pop_title(terminal: Terminal) -> str:
    return "\x1b[23;0t" if terminal.has_title else ""


def title(text: str, terminal: Terminal) -> str:
    return f"\x1b]2;{plain_line(text, MAX_TITLE)}{_BELL}" if terminal.has_title else ""


def progress(terminal: Terminal, *, busy: bool) -> str:
    """Progress in the taskbar or tab; "" if the terminal does not support it."""
    return f"\x1b]9;4;{3 if busy else 0};0{_BELL}" if terminal.has_progress else ""


def notification(terminal: Terminal, heading: str, body: str) -> str:
    """Desktop notification if the terminal supports it, otherwise the bell."""
    if terminal.name == "dumb":
        return _BELL
    # A semicolon separates fields in most of these sequences.
    heading = plain_line(heading, MAX_NOTICE).replace(";", ",")
    body = plain_line(body, MAX_NOTICE).replace(";", ",")
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
        return passed_through(sequence, terminal) + _BELL
    return sequence
