"""Open a web address in the user's browser."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from agentcli.core.processes.own_programs import StillRunning, desktop_environment, start_program
from agentcli.core.processes.programs import clean_search_path, find_program

_START_SECONDS = 3.0
"""An opener that still runs after this time is the browser itself."""
_DESKTOP_NAMES = ("XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "KDE_FULL_SESSION", "KDE_SESSION_VERSION")
_SAFE = ":/?#[]@&+,=%-._~"
"""Characters that have no special meaning for any opener, or a shell behind it."""


def open_in_browser(address: str, environ: Mapping[str, str], working_dirs: Iterable[Path]) -> bool:
    """Open an address; returns whether a browser was started. Blocking. Only http and https addresses are opened; ask
    the user first."""
    if not re.match(r"https?://", address):
        return False
    folders = tuple(working_dirs)
    variables = desktop_environment(environ, folders)
    variables |= {name: environ[name] for name in _DESKTOP_NAMES if name in environ}
    if "XDG_DATA_DIRS" in environ:
        variables["XDG_DATA_DIRS"] = clean_search_path(environ["XDG_DATA_DIRS"], folders)
    programs = (find_program(name, environ.get("PATH"), folders) for name in _openers(environ))
    return any(program and _starts([program, quote(address, safe=_SAFE)], variables) for program in programs)


def _openers(environ: Mapping[str, str]) -> tuple[str, ...]:
    if sys.platform == "darwin":
        return ("open",)
    if "WSL_DISTRO_NAME" in environ:
        return ("wslview", "xdg-open")
    # Without a display xdg-open starts a text browser.
    return ("xdg-open",) if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") else ()


def _starts(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    try:
        process = start_program(command, cwd="/", environ=environ)
    except OSError:
        return False
    try:
        return process.wait(_START_SECONDS) == 0
    except StillRunning:
        # The browser outlives the session, so it is only waited for, never stopped.
        threading.Thread(target=process.wait, name="browser opener", daemon=True).start()
        return True
