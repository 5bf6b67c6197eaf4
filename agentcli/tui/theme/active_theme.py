"""Chooses the active theme from the setting, the terminal's background and the user's own theme files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.tui.theme.palette import Palette
from agentcli.tui.theme.themes import Given, Theme, ThemeError, UnknownTheme, choose_theme, load_theme, load_themes

if TYPE_CHECKING:
    from textual.theme import Theme as TextualTheme


class ActiveTheme:
    """The theme in use, and why it is not the configured one."""

    def __init__(
        self, folders: Sequence[Path], setting: str, environ: Mapping[str, str], given: Callable[[], Given] = dict
    ) -> None:
        """`given`: returns the current themes that are in no folder."""
        self._folders = folders
        self._given = given
        self._environ = environ
        self._light: bool | None = None
        self._background: tuple[int, int, int] | None = None
        self.setting = setting
        """The configured theme: a name, or `auto`."""
        self.problem = ""
        """Why the active theme is not the configured one; "" if it is."""
        self.is_unknown = False
        """Whether that is because there is no theme of that name, so that a plugin may still add it."""
        self.theme = self._loaded(setting)

    @property
    def colours(self) -> bool:
        return not self._environ.get("NO_COLOR")

    @property
    def _ground(self) -> tuple[int, int, int] | None:
        """The terminal's background if known. A light theme chosen by name without knowing it paints its own."""
        if self._background is None and self.setting != "auto" and not self.theme.dark:
            return (0, 0, 0)
        return self._background

    @property
    def palette(self) -> Palette:
        return self.theme.palette(self.colours, self._ground)

    @property
    def textual(self) -> TextualTheme:
        return self.theme.textual(self.colours, self._ground)

    @property
    def own_folder(self) -> Path | None:
        own = self._folders[0] if len(self._folders) > 1 else None
        return own if own is not None and self.theme.file.parent == own else None

    def select(self, setting: str) -> None:
        """Activate a theme. If it cannot be read, `problem` says why and the default is used."""
        self.setting = setting
        self.theme = self._loaded(setting)

    def learn_background(self, rgb: tuple[int, int, int], light: bool) -> None:
        """Handle the terminal's report of its background, which may change what `auto` means."""
        self._background, self._light = rgb, light
        self.theme = self._loaded(self.setting)

    def check(self, name: str) -> None:
        load_theme(choose_theme(name, self._light, self._environ), self._folders, self._given())

    def all(self, report: Callable[[str], None] = lambda _problem: None) -> dict[str, Theme]:
        """All valid themes; `report` gets the problems of the others."""
        return load_themes(self._folders, report, self._given())

    def _loaded(self, setting: str) -> Theme:
        self.problem, self.is_unknown = "", False
        try:
            return load_theme(choose_theme(setting, self._light, self._environ), self._folders, self._given())
        except ThemeError as error:
            self.problem, self.is_unknown = str(error), isinstance(error, UnknownTheme)
            return load_theme(choose_theme("auto", self._light, self._environ), self._folders)
