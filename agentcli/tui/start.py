"""Run the app: set up the environment that Textual reads at import, run it, print its last message."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.demo.tour import Tour
    from agentcli.history.replay.playback import Frame
    from agentcli.tui.startup.preferences import Preferences
    from agentcli.tui.terminal.driver import AgentDriver
    from agentcli.tui.terminal.instant import Instant

FRAMES_A_SECOND = "240"
"""Maximum frame rate, which limits the delay between a key and its repaint. Textual's default of 60 adds up to 16 ms.
Streaming is limited to 30 frames a second elsewhere, so this costs nothing."""

SWITCH_SECONDS = 0.001
"""Maximum wait of the thread that reads keys for the one that paints. Python's default of 5 ms would be noticeable."""

DEMO_WANTED = -1
"""In place of an exit code: the user chose the tour instead of the app."""


@frozen(kw_only=True)
class Start:
    make_options: Callable[[], Options]
    """Checks the flags and imports the engine, so call it only after the first frame. Raises `UsageError`."""
    cwd: Path
    environ: Mapping[str, str]
    settings: str | None = None
    theme: str | None = None
    prompt: str = ""
    pick_session: bool = False
    resume: str = ""
    continue_latest: bool = False
    tour: Tour | None = None
    """The guided tour to run, in a temporary session; None: a usual session."""
    has_demo: bool = False
    """Whether the caller handles `DEMO_WANTED`."""
    playing: float = 0.0
    """How fast the tour plays automatically; 0: the user presses the keys."""


def run(start: Start, early: Instant | None = None) -> int:
    """Run the app and return its exit code. Raises the error that ended it, after the terminal is restored."""
    preferences, driver = _set_up(start.cwd, start.environ, early, start.settings, start.theme)
    from agentcli.tui.app import AgentApp

    app = AgentApp(start, preferences, driver_class=driver)
    code = app.run(mouse=preferences.mouse)
    if app.failure is not None:
        raise app.failure
    if app.farewell:
        # The terminal may be gone.
        with contextlib.suppress(OSError):
            _print(app.farewell)
    return app.return_code or 0 if code is None else code


def run_replay(frames: Sequence[Frame], speed: float, cwd: Path, environ: Mapping[str, str]) -> int:
    """Play a recorded session; returns the exit code. Raises as `run` does."""
    preferences, driver = _set_up(cwd, environ)
    from agentcli.tui.replay import ReplayApp

    app = ReplayApp(frames, speed, preferences, driver_class=driver)
    code = app.run(mouse=preferences.mouse)
    if app.failure is not None:
        raise app.failure
    return code or 0


def _set_up(
    cwd: Path,
    environ: Mapping[str, str],
    early: Instant | None = None,
    settings: str | None = None,
    theme: str | None = None,
) -> tuple[Preferences, type[AgentDriver]]:
    """Set up what Textual reads at import, and the driver. Raises `UsageError` without a usable terminal."""
    _check_terminal(environ)
    if os.environ.get("NO_COLOR") == "":
        # By its specification an empty variable has no effect; Textual only checks whether it is set.
        os.environ.pop("NO_COLOR")
    os.environ["TEXTUAL_FPS"] = FRAMES_A_SECOND
    from textual import constants  # noqa: F401 -- reads the variable now; children must not inherit it

    os.environ.pop("TEXTUAL_FPS")
    sys.setswitchinterval(SWITCH_SECONDS)
    from agentcli.tui.startup.preferences import load_preferences

    preferences = load_preferences(cwd, environ, settings, theme)
    from agentcli.core.processes.exit_cleanup import kill_descendants
    from agentcli.tui.terminal.driver import AgentDriver, Preloaded

    return preferences, AgentDriver.preload(Preloaded(early, kill_descendants, preferences.repaint == "whole"))


def _print(text: str) -> None:
    from agentcli.core.text.plaintext import terminal_text

    data = f"{terminal_text(text)}\n".encode(errors="replace")
    while data:
        data = data[os.write(1, data) :]


def _check_terminal(environ: Mapping[str, str]) -> None:
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("The app needs a terminal for input and output. Without one use: agentcli -p 'PROMPT'")
    if environ.get("TERM", "") in ("", "dumb"):
        raise UsageError("This terminal (TERM=dumb) cannot show the app. Use: agentcli --plain")
