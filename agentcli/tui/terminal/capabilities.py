"""What the terminal at hand can do, and the sequences for what a terminal does beside showing text.

Window title, progress, notifications and the clipboard. The writers return strings; who writes them is the driver's
business. Every text that goes in is cleaned here: none of it can end a sequence or begin another.
"""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.plaintext import plain_line
from agentcli.core.programs import find_program

Colours = Literal["none", "16", "256", "truecolor"]
Progress = Literal["none", "normal", "error", "indeterminate", "paused"]

LARGEST_CLIPBOARD = 74_994
"""Bytes in base64: what xterm takes, the most modest of those that take any."""
LONGEST_TITLE = 120
LONGEST_NOTICE = 240
PROGRAM_SECONDS = 3.0

_PROGRESS_NUMBERS = {"none": 0, "normal": 1, "error": 2, "indeterminate": 3, "paused": 4}
_BELL = "\x07"
_SCREEN_PIECE = 240
"""GNU screen passes strings on only up to a length."""


@frozen(kw_only=True)
class Terminal:
    """Facts from the environment alone; nothing is asked."""

    name: str = "unknown"
    """kitty, ghostty, wezterm, iterm, apple, vte, windows, vscode, foot, konsole, alacritty, linux, dumb or unknown."""
    version: tuple[int, ...] = ()
    ssh: bool = False
    tmux: bool = False
    screen: bool = False
    """GNU screen."""
    colours: Colours = "16"
    dark: bool | None = None
    """None: not known. The driver's `BackgroundColour` knows better, where the terminal answers."""
    wayland: bool = False
    x11: bool = False
    wsl: bool = False
    mac: bool = False
    search_path: str | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], platform: str = "linux") -> Terminal:
        """`platform` as in `sys.platform`."""
        name = _name(environ)
        term = environ.get("TERM", "")
        return cls(
            name=name,
            version=_version(name, environ),
            ssh=bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") or environ.get("SSH_CLIENT")),
            tmux=bool(environ.get("TMUX")) or term.startswith("tmux"),
            screen=bool(environ.get("STY")) or (term.startswith("screen") and not environ.get("TMUX")),
            colours=_colours(environ, name),
            dark=_dark(environ.get("COLORFGBG", "")),
            wayland=bool(environ.get("WAYLAND_DISPLAY")),
            x11=bool(environ.get("DISPLAY")),
            wsl=bool(environ.get("WSL_DISTRO_NAME")),
            mac=platform == "darwin",
            search_path=environ.get("PATH"),
        )

    @property
    def has_title(self) -> bool:
        return self.name not in ("dumb", "linux")

    @property
    def has_progress(self) -> bool:
        """Where it is not known, the same sequence pops up a message that says `4;1;50`."""
        if self.tmux or self.screen:
            return False
        least = {"windows": (), "ghostty": (), "wezterm": (20250209,), "iterm": (3, 6, 6), "vte": (8000,)}
        return self.name in least and self.version >= least[self.name]


# ------------------------------------------------------------------------------------------------------- writers


def push_title(terminal: Terminal) -> str:
    return "\x1b[22;0t" if terminal.has_title else ""


def pop_title(terminal: Terminal) -> str:
    return "\x1b[23;0t" if terminal.has_title else ""


def title(text: str, terminal: Terminal | None = None) -> str:
    has_title = terminal is None or terminal.has_title
    return f"\x1b]2;{plain_line(text, LONGEST_TITLE)}{_BELL}" if has_title else ""


def progress(terminal: Terminal, state: Progress, percent: int = 0) -> str:
    """In the taskbar or the tab; "" where it is not understood."""
    if not terminal.has_progress:
        return ""
    return f"\x1b]9;4;{_PROGRESS_NUMBERS[state]};{min(100, max(0, percent))}{_BELL}"


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
    size = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
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
        return f"Not copied: {size} are more than a terminal takes. Save it to a file with /export instead."
    return "Not copied: this terminal has no clipboard. Install wl-copy, xclip or xsel."


def _with_program(text: str, terminal: Terminal, working_dirs: tuple[Path, ...]) -> str:
    """The name of the program that took the text, or ""."""
    for command, encoding in _programs(terminal):
        found = find_program(command[0], terminal.search_path, working_dirs)
        if found is None:
            continue
        try:
            # Some of them go on in the background to serve the text: with our pipes open that would never end.
            done = subprocess.run(  # noqa: S603 -- a program of the system, with fixed arguments
                [found, *command[1:]],
                input=text.encode(encoding, "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PROGRAM_SECONDS,
                start_new_session=True,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0:
            return command[0]
    return ""


def _programs(terminal: Terminal) -> list[tuple[list[str], str]]:
    found: list[tuple[list[str], str]] = []
    if terminal.mac:
        found.append((["pbcopy"], "utf-8"))
    if terminal.wayland:
        found.append((["wl-copy"], "utf-8"))
    if terminal.x11:
        found += [(["xclip", "-selection", "clipboard"], "utf-8"), (["xsel", "-ib"], "utf-8")]
    if terminal.wsl:
        found.append((["clip.exe"], "utf-16-le"))
    return found


def _passed_through(sequence: str, terminal: Terminal) -> str:
    if terminal.tmux:
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if terminal.screen:
        # The string of screen ends with the first ST, so ours must not have one; BEL ends an OSC as well.
        sequence = sequence.replace("\x1b\\", _BELL)
        pieces = (sequence[start : start + _SCREEN_PIECE] for start in range(0, len(sequence), _SCREEN_PIECE))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence


# --------------------------------------------------------------------------------------------------------- facts


def _name(environ: Mapping[str, str]) -> str:
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    programs = {
        "iTerm.app": "iterm",
        "Apple_Terminal": "apple",
        "WezTerm": "wezterm",
        "ghostty": "ghostty",
        "vscode": "vscode",
        "kitty": "kitty",
    }
    checks = (
        (term in ("", "dumb"), "dumb"),
        (term == "linux", "linux"),
        (program in programs, programs.get(program, "")),
        (environ.get("LC_TERMINAL") == "iTerm2", "iterm"),
        ("KITTY_WINDOW_ID" in environ or term == "xterm-kitty", "kitty"),
        ("GHOSTTY_RESOURCES_DIR" in environ or term == "xterm-ghostty", "ghostty"),
        ("WEZTERM_PANE" in environ or term == "wezterm", "wezterm"),
        ("WT_SESSION" in environ, "windows"),
        ("KONSOLE_VERSION" in environ, "konsole"),
        ("VTE_VERSION" in environ, "vte"),
        (term.startswith("foot"), "foot"),
        (term.startswith("alacritty"), "alacritty"),
    )
    return next((name for holds, name in checks if holds), "unknown")


def _version(name: str, environ: Mapping[str, str]) -> tuple[int, ...]:
    text = environ.get("VTE_VERSION", "") if name == "vte" else environ.get("TERM_PROGRAM_VERSION", "")
    if name == "iterm":
        text = environ.get("LC_TERMINAL_VERSION", "") or text
    numbers: list[int] = []
    for part in text.replace("-", ".").split("."):
        if not (part.isascii() and part.isdigit() and len(part) < 10):
            break
        numbers.append(int(part))
    return tuple(numbers)


def _colours(environ: Mapping[str, str], name: str) -> Colours:
    term = environ.get("TERM", "")
    if name == "dumb":
        return "none"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith(("-direct", "-truecolor")):
        return "truecolor"
    if name in ("kitty", "ghostty", "wezterm", "iterm", "windows", "vte", "foot", "alacritty", "konsole", "vscode"):
        # tmux without COLORTERM may not be told that its own terminal could.
        return "256" if environ.get("TMUX") else "truecolor"
    return "256" if "256" in term or name == "apple" else "16"


def _dark(colours: str) -> bool | None:
    """COLORFGBG: `foreground;background` or `foreground;default;background`, as numbers of the palette."""
    background = colours.rpartition(";")[2]
    if not (background.isascii() and background.isdigit() and len(background) < 3):
        return None
    return int(background) < 7 or int(background) == 8
