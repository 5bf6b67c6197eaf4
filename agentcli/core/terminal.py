"""Detect the terminal and its features from the environment alone; nothing is queried or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from agentcli.core.frozen import frozen

Colours = Literal["none", "16", "256", "truecolor"]


@frozen(kw_only=True)
class Terminal:
    """Properties of the terminal, read from the environment only."""

    name: str = "unknown"
    """kitty, ghostty, wezterm, iterm, apple, vte, windows, vscode, foot, konsole, alacritty, linux, dumb or unknown."""
    version: tuple[int, ...] = ()
    ssh: bool = False
    tmux: bool = False
    screen: bool = False
    colours: Colours = "16"
    wayland: bool = False
    x11: bool = False
    wsl: bool = False
    mac: bool = False
    search_path: str | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], platform: str = "linux") -> Terminal:
        name = _name(environ)
        term = environ.get("TERM", "")
        return cls(
            name=name,
            version=_version(name, environ),
            ssh=bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") or environ.get("SSH_CLIENT")),
            tmux=bool(environ.get("TMUX")) or term.startswith("tmux"),
            screen=bool(environ.get("STY")) or (term.startswith("screen") and not environ.get("TMUX")),
            colours=_colours(environ, name),
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
        """Whether the terminal shows progress. On unsupported terminals the sequence shows a message `4;1;50`."""
        if self.tmux or self.screen:
            return False
        least = {"windows": (), "ghostty": (), "wezterm": (20250209,), "iterm": (3, 6, 6), "vte": (8000,)}
        return self.name in least and self.version >= least[self.name]

    @property
    def clipboard_programs(self) -> list[tuple[list[str], str]]:
        """Commands that copy text to the desktop's clipboard, best first, each with its encoding."""
        found: list[tuple[list[str], str]] = []
        if self.mac:
            found.append((["pbcopy"], "utf-8"))
        if self.wayland:
            found.append((["wl-copy"], "utf-8"))
        if self.x11:
            found += [(["xclip", "-selection", "clipboard"], "utf-8"), (["xsel", "-ib"], "utf-8")]
        if self.wsl:
            found.append((["clip.exe"], "utf-16-le"))
        return found


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
        # tmux without COLORTERM may not know about true colour of its terminal.
        return "256" if environ.get("TMUX") else "truecolor"
    return "256" if "256" in term or name == "apple" else "16"
