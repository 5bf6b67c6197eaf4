"""Open an address in the user's browser."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from agentcli.core.own_programs import desktop_environment, start_program
from agentcli.core.programs import clean_search_path, find_program

_DESKTOP_NAMES = ("XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "KDE_FULL_SESSION", "KDE_SESSION_VERSION")
_SAFE = ":/?#[]@&+,=%-._~"
"""Characters that no opener, and no shell behind one, gives a meaning."""


def open_browser(url: str, environ: Mapping[str, str], working_dirs: Iterable[Path]) -> bool:
    """Whether a program was started for it. Blocking, shortly. Only http and https addresses are opened."""
    folders = tuple(working_dirs)
    program = _opener(environ, folders)
    if program is None or not re.match(r"https?://", url):
        return False
    variables = desktop_environment(environ, folders)
    variables |= {name: environ[name] for name in _DESKTOP_NAMES if name in environ}
    if "XDG_DATA_DIRS" in environ:
        variables["XDG_DATA_DIRS"] = clean_search_path(environ["XDG_DATA_DIRS"], folders)
    try:
        process = start_program([program, quote(url, safe=_SAFE)], cwd="/", environ=variables)
    except OSError:
        return False
    # Some openers become the browser, which outlives the session, so the process is only waited for, never stopped.
    threading.Thread(target=process.wait, name="browser opener", daemon=True).start()
    return True


def _opener(environ: Mapping[str, str], working_dirs: Iterable[Path]) -> str | None:
    names: tuple[str, ...]
    if sys.platform == "darwin":
        names = ("open",)
    elif "WSL_DISTRO_NAME" in environ:
        names = ("wslview", "xdg-open")
    else:
        # Without a display xdg-open starts a text browser.
        names = ("xdg-open",) if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") else ()
    found = (find_program(name, environ.get("PATH"), working_dirs) for name in names)
    return next((program for program in found if program is not None), None)
