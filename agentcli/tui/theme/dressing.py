"""Which theme is on, and why: the setting, what the terminal said of its background, the person's own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.tui.theme.palette import Palette
from agentcli.tui.theme.themes import Given, Theme, ThemeError, UnknownTheme, choose_theme, load_theme, load_themes

if TYPE_CHECKING:
    from textual.theme import Theme as TextualTheme


class Dressing:
    def __init__(
        self, folders: Sequence[Path], setting: str, environ: Mapping[str, str], given: Callable[[], Given] = dict
    ) -> None:
        """`given`: themes that lie in no folder, as they are now."""
        self._folders = folders
        self._given = given
        self._environ = environ
        self._light: bool | None = None
        self._background: tuple[int, int, int] | None = None
        self.setting = setting
        """What the person wants: a name, or `auto`."""
        self.problem = ""
        """Why the theme that is on is not the one that was wanted."""
        self.is_unknown = False
        """Whether that is because there is no theme of that name, so that a plugin may still add it."""
        self.theme = self._loaded(setting)

    @property
    def colours(self) -> bool:
        return not self._environ.get("NO_COLOR")

    @property
    def _ground(self) -> tuple[int, int, int] | None:
        """The terminal's background as far as it is known. Who asks for a light theme by name where nothing is known is
        likely to sit before a dark terminal: then the theme paints its own."""
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
        """The folder of the theme that is on, if the person made it."""
        own = self._folders[0] if len(self._folders) > 1 else None
        return own if own is not None and self.theme.file.parent == own else None

    def wear(self, setting: str) -> None:
        """Put a theme on. One that cannot be read is `problem`, and the usual one is on."""
        self.setting = setting
        self.theme = self._loaded(setting)

    def learn_background(self, rgb: tuple[int, int, int], light: bool) -> None:
        """The terminal has told its background: `auto` may mean another theme."""
        self._background, self._light = rgb, light
        self.theme = self._loaded(self.setting)

    def check(self, name: str) -> None:
        """Raises `ThemeError` where there is no such theme."""
        load_theme(choose_theme(name, self._light, self._environ), self._folders, self._given())

    def all(self, report: Callable[[str], None] = lambda _problem: None) -> dict[str, Theme]:
        """Every theme; `report` gets what is wrong with those that are left out."""
        return load_themes(self._folders, report, self._given())

    def _loaded(self, setting: str) -> Theme:
        self.problem, self.is_unknown = "", False
        try:
            return load_theme(choose_theme(setting, self._light, self._environ), self._folders, self._given())
        except ThemeError as error:
            self.problem, self.is_unknown = str(error), isinstance(error, UnknownTheme)
            return load_theme(choose_theme("auto", self._light, self._environ), self._folders)
