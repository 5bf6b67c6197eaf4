"""Open a web address in the user's browser."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.core.own_programs import StillRunning, desktop_environment, start_program
from agentcli.core.programs import find_program

_START_SECONDS = 3.0
"""An opener that still runs after this time is the browser itself."""
_PASSED_ON = ("XDG_CURRENT_DESKTOP", "XDG_DATA_DIRS", "DESKTOP_SESSION", "BROWSER")


def open_in_browser(address: str, environ: Mapping[str, str], working_dirs: Sequence[Path]) -> bool:
    """Whether a browser was started for an http or https address. Blocking. The address must come from a user's yes."""
    if not address.startswith(("https://", "http://")):
        raise ValueError("not a web address")
    names = ("open",) if sys.platform == "darwin" else ("wslview", "xdg-open")
    passed_on = {name: environ[name] for name in _PASSED_ON if name in environ}
    surroundings = {**passed_on, **desktop_environment(environ, working_dirs)}
    for name in names:
        program = find_program(name, environ.get("PATH"), working_dirs)
        if program is not None and _starts([program, address], surroundings):
            return True
    return False


def _starts(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    try:
        process = start_program(command, cwd="/", environ=environ)
    except OSError:
        return False
    try:
        return process.wait(_START_SECONDS) == 0
    except StillRunning:
        threading.Thread(target=process.wait, daemon=True).start()
        return True
