"""Checks of the machine (versions, programs, watched folders) and the terminal (display, keyboard, clipboard)."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from agentcli import __version__
from agentcli.core.processes.own_programs import find_program, run_program
from agentcli.core.terminal import Terminal
from agentcli.core.text.plaintext import plain_line
from agentcli.doctor.finding import CheckContext, Finding
from agentcli.tools.search.ripgrep import find_ripgrep

_MIN_WATCHES = 8_192
"""Fewer watched folders than this are too few for a large project."""
_VERSION_SECONDS = 5.0
_REPORTED_LIBRARIES = ("anthropic", "httpx2", "textual", "rich", "prompt_toolkit", "typer", "tree-sitter")
"""Libraries whose versions a bug report should name."""


def versions(_context: CheckContext) -> Iterator[Finding]:
    yield Finding("ok", "agentcli", f"{__version__}, in {Path(__file__).parent.parent}")
    yield Finding(
        "ok", "python", f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.release()}"
    )
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        required = [_name(line) for line in requires("agentcli") or () if "extra ==" not in line]
    except PackageNotFoundError:
        required = list(_REPORTED_LIBRARIES)
    found: dict[str, str] = {}
    for name in dict.fromkeys((*_REPORTED_LIBRARIES, *required)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    missing = [name for name in required if name not in found]
    text = ", ".join(f"{name} {found[name]}" for name in _REPORTED_LIBRARIES if name in found)
    if missing:
        advice = "Reinstall agentcli: pip install --force-reinstall agentcli."
        yield Finding("fail", "libraries", f"missing: {', '.join(missing)}", advice)
    else:
        yield Finding("ok", "libraries", text)


def programs(context: CheckContext) -> Iterator[Finding]:
    path, folders = context.environ.get("PATH"), context.environment.writable_dirs
    ripgrep = find_ripgrep(context.environ, folders)
    needed = (
        ("git", find_program("git", path, folders), "Install git: undo and the branch display need it."),
        ("ripgrep", ripgrep, "Install ripgrep, or reinstall agentcli, which includes it."),
        ("bash", find_program("bash", path, folders), "Install bash to run commands with it; until then sh is used."),
    )
    for name, found, advice in needed:
        if found is None:
            yield Finding("fail" if name == "ripgrep" else "warn", name, "not found", advice)
        else:
            yield Finding("ok", name, f"{_version(found)} ({found})")


def watches(_context: CheckContext) -> Iterator[Finding]:
    limit = Path("/proc/sys/fs/inotify/max_user_watches")
    if not limit.exists():
        return
    count = int(limit.read_text())
    if count < _MIN_WATCHES:
        advice = "Raise it: sysctl fs.inotify.max_user_watches=524288. Until then agentcli polls for changes."
        yield Finding("warn", "file watcher", f"only {count:,} folders can be watched", advice)
    else:
        yield Finding("ok", "file watcher", f"inotify, up to {count:,} folders")


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found.group() if found else requirement


def _version(program: str) -> str:
    done = run_program([program, "--version"], cwd="/", environ={"PATH": os.defpath}, seconds=_VERSION_SECONDS)
    lines = done.output.decode(errors="replace").splitlines()
    return plain_line(lines[0], 100) if lines else "version unknown"


# ------------------------------------------------------------------------------------------------------------ terminal


MIN_COLUMNS, MIN_ROWS = 40, 10
_WITH_PROTOCOL = ("kitty", "ghostty", "foot", "wezterm", "iterm", "alacritty")
"""Terminals with the kitty keyboard protocol, at least as a setting."""
_NEW_LINE = "Ctrl+J, or a backslash and Enter, always insert a new line."


def terminal(context: CheckContext) -> Iterator[Finding]:
    environ, screen = context.environ, context.screen
    features = _terminal(context)
    kind = environ.get("TERM", "")
    encoding = screen.encoding.lower().replace("-", "").replace("_", "")
    parts = [
        ("a terminal" if features.name == "unknown" else features.name) if screen.is_terminal else "no terminal",
        f"TERM={kind or 'unset'}",
        f"{screen.columns}x{screen.rows}",
        "no colours (NO_COLOR)" if environ.get("NO_COLOR") else _COLOURS[features.colours],
        "UTF-8" if encoding == "utf8" else screen.encoding or "no encoding",
        *(
            name
            for name, there in (("ssh", features.ssh), ("tmux", features.tmux), ("GNU screen", features.screen))
            if there
        ),
    ]
    text = ", ".join(parts)
    if encoding != "utf8":
        yield Finding("warn", "terminal", text, "Set a UTF-8 locale, for example LANG=C.UTF-8.")
    elif screen.is_terminal and kind in ("", "dumb"):
        advice = "agentcli starts in plain mode. For the full-screen app, set TERM, for example to xterm-256color."
        yield Finding("warn", "terminal", text, advice)
    elif screen.is_terminal and (screen.columns < MIN_COLUMNS or screen.rows < MIN_ROWS):
        advice = f"Make the window larger: the app needs {MIN_COLUMNS}x{MIN_ROWS}."
        yield Finding("warn", "terminal", text, advice)
    elif screen.is_terminal and features.tmux and features.colours != "truecolor":
        advice = "For all colours in tmux: set -as terminal-features ',*:RGB' in ~/.tmux.conf, and COLORTERM=truecolor."
        yield Finding("ok", "terminal", text, advice)
    else:
        yield Finding("ok", "terminal", text)


def keyboard(context: CheckContext) -> Iterator[Finding]:
    """Whether the terminal is known to distinguish Shift+Enter from Enter; no finding without a terminal."""
    if not context.screen.is_terminal or context.environ.get("TERM", "") in ("", "dumb"):
        return
    features = _terminal(context)
    known = features.name in _WITH_PROTOCOL and not features.tmux and not features.screen
    text = f"{features.name} can report all keys" if known else "Shift+Enter may look like Enter"
    yield Finding("ok", "keyboard", text, "" if known else _advice(features))


def clipboard(context: CheckContext) -> Iterator[Finding]:
    if not context.screen.is_terminal:
        return
    features = _terminal(context)
    folders = context.environment.working_dirs
    commands = () if features.ssh else [command for command, _encoding in features.clipboard_programs]
    program = next((command[0] for command in commands if find_program(command[0], features.search_path, folders)), "")
    if program:
        yield Finding("ok", "clipboard", f"by {program}{', and through tmux' if features.tmux else ''}")
        return
    if features.name in ("dumb", "linux"):
        yield Finding("warn", "clipboard", "not available in this terminal")
        return
    advice = ""
    if features.tmux:
        advice = "The tmux buffer is set too. tmux passes it on unless set-clipboard is off."
    elif features.name in ("vte", "apple", "unknown") and not features.ssh:
        programs = "wl-copy" if features.wayland else "xclip or xsel" if features.x11 else ""
        advice = f"If copying does not work: install {programs}." if programs else ""
    yield Finding("ok", "clipboard", "through the terminal (OSC 52)", advice)


_COLOURS = {"none": "no colours", "16": "16 colours", "256": "256 colours", "truecolor": "all colours"}


def _terminal(context: CheckContext) -> Terminal:
    return Terminal.from_environ(context.environ, sys.platform)


def _advice(features: Terminal) -> str:
    if features.tmux:
        return f"{_NEW_LINE} In tmux: set -s extended-keys on, and set -as terminal-features ',*:extkeys'."
    if features.name == "wezterm":
        return f"{_NEW_LINE} In wezterm: enable_kitty_keyboard = true."
    return _NEW_LINE
