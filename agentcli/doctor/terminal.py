"""Checks of the terminal: display, keyboard and clipboard."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Iterator
from typing import Literal

from agentcli.core.processes.programs import find_program
from agentcli.core.terminal import Terminal
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding

LEAST_COLUMNS, LEAST_ROWS = 40, 10
_WITH_PROTOCOL = ("kitty", "ghostty", "foot", "wezterm", "iterm", "alacritty")
"""Terminals with the kitty keyboard protocol, at least as a setting."""
_NEW_LINE = "Ctrl+J, or a backslash and Enter, always insert a new line."


def terminal(context: CheckContext) -> Iterator[Finding]:
    environ, screen = context.environ, context.screen
    facts = _facts(context)
    kind = environ.get("TERM", "")
    encoding = screen.encoding.lower().replace("-", "").replace("_", "")
    parts = [
        ("a terminal" if facts.name == "unknown" else facts.name) if screen.is_terminal else "no terminal",
        f"TERM={kind or 'unset'}",
        f"{screen.columns}x{screen.rows}",
        "no colours (NO_COLOR)" if environ.get("NO_COLOR") else _COLOURS[facts.colours],
        "UTF-8" if encoding == "utf8" else screen.encoding or "no encoding",
        *(name for name, there in (("ssh", facts.ssh), ("tmux", facts.tmux), ("GNU screen", facts.screen)) if there),
    ]
    text = ", ".join(parts)
    if encoding != "utf8":
        yield Finding("warn", "terminal", text, "Set a UTF-8 locale, for example LANG=C.UTF-8.")
    elif screen.is_terminal and kind in ("", "dumb"):
        advice = "agentcli starts in plain mode. For the full-screen app, set TERM, for example to xterm-256color."
        yield Finding("warn", "terminal", text, advice)
    elif screen.is_terminal and (screen.columns < LEAST_COLUMNS or screen.rows < LEAST_ROWS):
        advice = f"Make the window larger: the app needs {LEAST_COLUMNS}x{LEAST_ROWS}."
        yield Finding("warn", "terminal", text, advice)
    elif screen.is_terminal and facts.tmux and facts.colours != "truecolor":
        advice = "For all colours in tmux: set -as terminal-features ',*:RGB' in ~/.tmux.conf, and COLORTERM=truecolor."
        yield Finding("ok", "terminal", text, advice)
    else:
        yield Finding("ok", "terminal", text)


def keyboard(context: CheckContext) -> Iterator[Finding]:
    """Check whether the terminal distinguishes Shift+Enter from Enter; no finding without a terminal."""
    if not context.screen.is_terminal or context.environ.get("TERM", "") in ("", "dumb"):
        return
    facts = _facts(context)
    if context.screen.may_ask:
        answer = ask_for_keyboard_protocol()
        if answer == "kitty":
            yield Finding("ok", "keyboard", "the terminal reports all keys (kitty protocol), including Shift+Enter")
        elif answer == "none":
            yield Finding("ok", "keyboard", "Shift+Enter may look like Enter in this terminal", _advice(facts))
        else:
            yield Finding("ok", "keyboard", "the terminal does not answer queries", _NEW_LINE)
        return
    known = facts.name in _WITH_PROTOCOL and not facts.tmux and not facts.screen
    text = f"{facts.name} can report all keys" if known else "Shift+Enter may look like Enter"
    yield Finding("ok", "keyboard", text, "" if known else _advice(facts))


def clipboard(context: CheckContext) -> Iterator[Finding]:
    if not context.screen.is_terminal:
        return
    facts = _facts(context)
    folders = context.environment.working_dirs
    commands = () if facts.ssh else [command for command, _encoding in facts.clipboard_programs]
    program = next((command[0] for command in commands if find_program(command[0], facts.search_path, folders)), "")
    if program:
        yield Finding("ok", "clipboard", f"by {program}{', and through tmux' if facts.tmux else ''}")
        return
    if facts.name in ("dumb", "linux"):
        yield Finding("warn", "clipboard", "not available in this terminal")
        return
    advice = ""
    if facts.tmux:
        advice = "The tmux buffer is set too. tmux passes it on unless set-clipboard is off."
    elif facts.name in ("vte", "apple", "unknown") and not facts.ssh:
        programs = "wl-copy" if facts.wayland else "xclip or xsel" if facts.x11 else ""
        advice = f"If copying does not work: install {programs}." if programs else ""
    yield Finding("ok", "clipboard", "through the terminal (OSC 52)", advice)


_COLOURS = {"none": "no colours", "16": "16 colours", "256": "256 colours", "truecolor": "all colours"}


def _facts(context: CheckContext) -> Terminal:
    return Terminal.from_environ(context.environ, sys.platform)


def _advice(facts: Terminal) -> str:
    if facts.tmux:
        return f"{_NEW_LINE} In tmux: set -s extended-keys on, and set -as terminal-features ',*:extkeys'."
    if facts.name == "wezterm":
        return f"{_NEW_LINE} In wezterm: enable_kitty_keyboard = true."
    return _NEW_LINE


Answer = Literal["kitty", "none", "silence"]

QUESTION = b"\x1b[?u\x1b[c"
"""Two queries. Every terminal answers the second one; if only that is answered, the protocol is missing."""
_SECONDS = 0.5
_LAST = re.compile(rb"\x1b\[\?[0-9;]*c")
_PROTOCOL = re.compile(rb"\x1b\[\?[0-9]+u")


def ask_for_keyboard_protocol(source: int = 0, target: int = 1, seconds: float = _SECONDS) -> Answer:
    """Query the terminal. `silence`: no answer, or no terminal."""
    import termios
    import tty

    try:
        if not (os.isatty(source) and os.isatty(target)) or os.tcgetpgrp(source) != os.getpgrp():
            # A background process that changes the terminal would be stopped.
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


def understood(answer: bytes) -> Answer:
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
