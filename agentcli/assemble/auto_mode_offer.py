"""The one-time notice that auto mode exists: shown with a user's first prompt where the sandbox works."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from agentcli.assemble.environment import Environment
from agentcli.core.launch import Launcher

MARKER = "auto-mode-offered"
OFFER = (
    "Auto mode is available: project edits and sandboxed commands run without approval. Network access, paths outside "
    "the project and loss of git history still need approval. Switch with Shift+Tab or /mode auto."
)


def auto_mode_offer(env: Environment, launcher: Launcher) -> Callable[[], str]:
    """A function that returns the notice the first time it is called for this user, else nothing."""
    options, folder = env.options, env.paths.state_dir
    chosen = options.permission_mode is not None or bool(env.settings.each("permissions.defaultMode"))
    if not (options.offer_auto_mode and options.interactive) or chosen or launcher.uncontained or folder is None:
        return lambda: ""
    return lambda: OFFER if _first_time(folder / MARKER) else ""


def _first_time(marker: Path) -> bool:
    """Whether this call created the marker. If it cannot be created, the notice is never shown."""
    with contextlib.suppress(OSError):
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        return True
    return False
