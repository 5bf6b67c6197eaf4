"""What the person chose for the app itself. Read before the first paint, so it needs nothing but the settings files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentcli.config.paths import Paths
from agentcli.config.settings import Settings, SettingsRequest, load_settings
from agentcli.core.frozen import frozen


@frozen(kw_only=True)
class Preferences:
    theme: str = "auto"
    reduced_motion: bool = False
    mouse: bool = True
    notifications: str = "auto"
    status_line: Mapping[str, Any] | None = None
    keymap: Mapping[str, str] | None = None
    paths: Paths
    cwd: Path
    environ: Mapping[str, str]


def load_preferences(cwd: Path, environ: Mapping[str, str], flag_text: str | None, theme: str | None) -> Preferences:
    """None of these can be set by a repository, so whether the folder is trusted makes no difference."""
    paths = Paths.from_environ(environ)
    settings = load_settings(SettingsRequest(paths=paths, cwd=cwd, environ=environ, flag_text=flag_text))
    return preferences_of(settings, paths, cwd, environ, theme)


def preferences_of(
    settings: Settings, paths: Paths, cwd: Path, environ: Mapping[str, str], theme: str | None
) -> Preferences:
    return Preferences(
        theme=theme or settings.text("theme") or "auto",
        reduced_motion=settings.boolean("reducedMotion"),
        mouse=settings.boolean("mouse"),
        notifications=settings.text("notifications") or "auto",
        status_line=settings.mapping("statusLine") or None,
        keymap=settings.mapping("keymap") or None,
        paths=paths,
        cwd=cwd,
        environ=environ,
    )
