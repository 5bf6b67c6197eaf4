"""The active theme: the palette of blocks and the variables of Textual's CSS that a theme file gives.

The background `terminal` is the terminal's own, which may be an image or transparent. In Textual this requires:
- The theme is `ansi`: only then Textual keeps "default" instead of painting its own colour for it. RGB colours still
  come out as RGB, and strips of the line API keep their default background.
- Nothing may be blended with that background, because Textual assumes it to be black: every variable is opaque.
- The `:ansi` rules of Textual's widgets apply then; `style.tcss` overrides them.
- A modal screen must be `transparent` over it (a tint would paint the default black); this is in `style.tcss` too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.config.themes import (
    OPTIONAL,
    REQUIRED,
    Given,
    Theme,
    ThemeError,
    UnknownTheme,
    load_theme,
    load_themes,
    theme_files,
)
from agentcli.core.looks import Colour, Rgb, Shades
from agentcli.tui.textual_internals import refresh_colour_filter
from agentcli.tui.theme.palette import WITHOUT_COLOURS, Palette, style_of, textual_variables

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme as TextualTheme

WATCH_SECONDS = 1.0
"""Interval at which the user's themes are checked while one of them is active."""


def palette_of(theme: Theme, colours: bool = True, background: Rgb | None = None) -> Palette:
    """Styles for blocks. `background`: the terminal's background, if it reported one."""
    if not colours:
        return WITHOUT_COLOURS
    shades = Shades.of(theme.colours, theme.dark, background)
    syntax = {kind: style_of(look) for kind, look in shades.syntax(theme.syntax).items()}
    styles: dict[str, Any] = {name: style_of(look) for name, look in shades.looks(theme.looks).items()}
    return Palette(name=theme.name, dark=theme.dark, syntax=syntax, **styles)


def textual_theme(theme: Theme, colours: bool = True, background: Rgb | None = None) -> TextualTheme:
    """Theme for Textual's widgets. Without colours the app must also be created with `ansi_color=True`: Textual
    chooses its NO_COLOR filter at creation, and the other filter leaves shades of grey."""
    from textual.theme import Theme as TextualTheme

    named = theme.colours if colours else dict.fromkeys((*REQUIRED, *OPTIONAL), Colour())
    shades = Shades.of(named, theme.dark, background)
    css = {name: colour.css for name, colour in shades.colours.items()}
    return TextualTheme(
        name=theme.name,
        dark=theme.dark,
        ansi=any(colour.rgb is None for colour in shades.colours.values()),
        primary=css["accent"],
        secondary=css["muted"],
        warning=css["warning"],
        error=css["error"],
        success=css["success"],
        accent=css["accent"],
        foreground=css["foreground"],
        background=css["background"],
        surface=css["surface"],
        panel=css["raised"],
        variables=textual_variables(shades),
    )


def begin_with_theme(app: App[Any], theme: TextualTheme) -> None:
    """Set the first theme in an app's constructor, before any style sheet is parsed: they use variables of our themes.

    Bypasses the watcher of `theme`, which would parse everything twice, and does the rest of its work here. With the
    old colour filter, the terminal's own background would be painted in Textual's black.
    """
    app.register_theme(theme)
    app.set_reactive(type(app).theme, theme.name)
    app.stylesheet.set_variables(app.get_css_variables())
    refresh_colour_filter(app)


def apply_theme(app: App[Any], theme: TextualTheme) -> None:
    """Apply a theme, including one that changed under the same name. Parses all style sheets again if it differs."""
    before = app.get_theme(theme.name)
    app.register_theme(theme)
    if app.theme == theme.name and before == theme:
        return
    if app.theme == theme.name:
        app.mutate_reactive(type(app).theme)  # assigning the same value would have no effect
    else:
        app.theme = theme.name


def choose_theme(setting: str, terminal_is_light: bool | None, environ: Mapping[str, str]) -> str:
    """Name of the theme to load. `auto` or "" depends on the terminal's background and number of colours."""
    if setting and setting != "auto":
        return setting
    if terminal_is_light is None:
        # `foreground;background` (some terminals put a word between) as indexes of the sixteen colours.
        terminal_is_light = environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
    if _has_few_colours(environ):
        return "ansi-light" if terminal_is_light else "ansi"
    return "light" if terminal_is_light else "dark"


def _has_few_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has at most sixteen colours, by the variables that Rich uses."""
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return False
    term = environ.get("TERM", "").strip().lower()
    return term.rpartition("-")[2] not in ("256color", "kitty")


async def watch_themes(folder: Path, on_change: Callable[[], None]) -> None:
    """Call `on_change` after themes in the user's folder have changed, until cancelled."""
    import asyncio

    before = await asyncio.to_thread(_stamps, folder)
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        now = await asyncio.to_thread(_stamps, folder)
        if now != before:
            before = now
            on_change()


def _stamps(folder: Path) -> list[tuple[Path, int, int]]:
    """Times and sizes of all themes; empty while one of them cannot be read."""
    try:
        return [(file, found.st_mtime_ns, found.st_size) for file in theme_files(folder) for found in (file.stat(),)]
    except OSError:
        return []


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
        self.theme = self._load(setting)

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
        return palette_of(self.theme, self.colours, self._ground)

    @property
    def textual(self) -> TextualTheme:
        return textual_theme(self.theme, self.colours, self._ground)

    @property
    def own_folder(self) -> Path | None:
        own = self._folders[0] if len(self._folders) > 1 else None
        return own if own is not None and self.theme.file.parent == own else None

    def select(self, setting: str) -> None:
        """Activate a theme. If it cannot be read, `problem` says why and the default is used."""
        self.setting = setting
        self.theme = self._load(setting)

    def learn_background(self, rgb: tuple[int, int, int], light: bool) -> None:
        """Handle the terminal's report of its background, which may change what `auto` means."""
        self._background, self._light = rgb, light
        self.theme = self._load(self.setting)

    def check(self, name: str) -> None:
        load_theme(choose_theme(name, self._light, self._environ), self._folders, self._given())

    def all(self, report: Callable[[str], None] = lambda _problem: None) -> dict[str, Theme]:
        """All valid themes; `report` gets the problems of the others."""
        return load_themes(self._folders, report, self._given())

    def _load(self, setting: str) -> Theme:
        self.problem, self.is_unknown = "", False
        try:
            return load_theme(choose_theme(setting, self._light, self._environ), self._folders, self._given())
        except ThemeError as error:
            self.problem, self.is_unknown = str(error), isinstance(error, UnknownTheme)
            return load_theme(choose_theme("auto", self._light, self._environ), self._folders)
