"""The user's settings for the app itself. Read before the first paint, so it needs nothing but the settings files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.config.paths import Paths, project_folder
from agentcli.config.settings import SettingScope, SettingsRequest, load_settings
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.processes.own_programs import folders_named, user_environment
from agentcli.tui.status.data import show_path

if TYPE_CHECKING:
    from agentcli.tui.status.command import StatusCommand

_LIVE = ("theme", "status_line", "notifications", "exit_transcript", "reduced_motion")
"""Fields of settings that apply at once."""


@frozen(kw_only=True)
class Preferences:
    theme: str = "auto"
    reduced_motion: bool = False
    mouse: bool = True
    notifications: str = "auto"
    exit_transcript: str = "last"
    repaint: str = "changes"
    status_line: Mapping[str, Any] | None = None
    keymap: Mapping[str, str] | None = None
    paths: Paths
    cwd: Path
    environ: Mapping[str, str]
    """Environment of programs started by the app: see `user_environment`."""

    def with_live(self, fresh: Preferences) -> Preferences:
        """The same, with the settings of `fresh` that can change while the app runs."""
        return replace(self, **{name: getattr(fresh, name) for name in _LIVE})

    @property
    def settings_files(self) -> dict[SettingScope, str]:
        local = str(project_folder(self.cwd) / "settings.local.json")
        user = self.paths.user_settings
        return {"user": str(user), "local": local} if user is not None else {"local": local}

    def keep(self, name: str, value: Any, scope: SettingScope = "user") -> str:
        """Save a setting and return the path of the file. Raises `AgentError`."""
        from agentcli.config.save import save_setting

        path = self.settings_files.get(scope)
        if path is None:
            raise AgentError("There is no folder for settings: no home folder is known.")
        save_setting(Path(path), name, value)
        return show_path(Path(path))

    def status_command(self, version: str) -> StatusCommand | None:
        wanted = self.status_line or {}
        if wanted.get("type") != "command" or not isinstance(wanted.get("command"), str):
            return None
        from agentcli.config.trust import trust_root
        from agentcli.config.trust_effects import named_paths
        from agentcli.tools.shell.environment import child_environment
        from agentcli.tui.status.command import StatusCommand

        command, root = wanted["command"], trust_root(self.cwd)
        # In a session in the home folder the files are the user's own.
        at_home = self.paths.config_dir is not None and self.paths.config_dir.is_relative_to(root)
        named = () if at_home else named_paths([json.dumps(wanted)], root, self.cwd)
        files = tuple(str(root / name) for name in named)
        return StatusCommand(command, str(self.cwd), child_environment(self.environ), version, files)


def load_preferences(cwd: Path, environ: Mapping[str, str], flag_text: str | None, theme: str | None) -> Preferences:
    """Load the preferences. A repository cannot set any of them, so trust of the folder does not matter."""
    paths = Paths.from_environ(environ)
    settings = load_settings(SettingsRequest(paths=paths, cwd=cwd, environ=environ, flag_text=flag_text))
    home = environ.get("HOME")
    named = (*settings.texts("permissions.additionalDirectories"), *settings.texts("sandbox.allowWrite"))
    further = folders_named(named, cwd, Path(home) if home else None)
    return Preferences(
        theme=theme or settings.text("theme") or "auto",
        reduced_motion=settings.boolean("reducedMotion"),
        mouse=settings.boolean("mouse"),
        notifications=settings.text("notifications") or "auto",
        exit_transcript=settings.text("exitTranscript") or "last",
        repaint=settings.text("repaint") or "changes",
        status_line=settings.mapping("statusLine") or None,
        keymap=settings.mapping("keymap") or None,
        paths=paths,
        cwd=cwd,
        environ=user_environment(environ, (cwd, *further)),
    )
