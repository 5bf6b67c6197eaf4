"""Themes from TOML files: read, checked, and turned into styles of blocks and variables of Textual's CSS.

Built-in themes are in `themes/`, the user's in the folder `themes` beside their settings; a user's theme replaces a
built-in one of the same name. The start reads only the active theme, the theme picker reads the others.

The background `terminal` is the terminal's own, which may be an image or transparent. In Textual this requires:
- The theme is `ansi`: only then Textual keeps "default" instead of painting its own colour for it. RGB colours still
  come out as RGB, and strips of the line API keep their default background.
- Nothing may be blended with that background, because Textual assumes it to be black: every variable is opaque.
- The `:ansi` rules of Textual's widgets apply then; `style.tcss` overrides them.
- A modal screen must be `transparent` over it (a tint would paint the default black); this is in `style.tcss` too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.style import Style

from agentcli.core.files.access import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.format import byte_size
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.textual_internals import refresh_colour_filter
from agentcli.tui.theme.palette import (
    MEANINGS,
    SYNTAX,
    WITHOUT_COLOURS,
    Colour,
    Palette,
    Rgb,
    Shades,
    parse_colour,
    parse_look,
)

if TYPE_CHECKING:
    from textual.app import App
    from textual.theme import Theme as TextualTheme

REQUIRED = ("background", "foreground", "accent", "red", "orange", "yellow", "green", "cyan", "blue")
OPTIONAL = ("purple", "pink", "muted", "faint", "rule", "surface", "raised", "selection", *MEANINGS)
"""Derived from the required colours if a theme does not define them."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_LOOKS = frozenset(field.name for field in fields(Palette)) - {"name", "dark", "colours", "syntax"}
_COLOUR_FORM = "a colour: #rrggbb, ansi-red, ansi-bright-red … or terminal"
_LOOK_FORM = "a style such as `bold accent on #202020`"
_MAX_SIZE = 64 * 1024
_MAX_EXTENDS = 4
WATCH_SECONDS = 1.0
"""Interval at which the user's themes are checked while one of them is active."""


class ThemeError(Exception):
    """A theme that cannot be used. The text names the file, the place in it, and the expected value."""

    def __init__(self, place: Path | str, key: str, expected: str) -> None:
        where = f"{place}, {key}" if key else str(place)
        super().__init__(plain_line(f"{where}: {expected}", 400))


class UnknownTheme(ThemeError):
    """There is no theme of that name."""


@frozen
class Theme:
    name: str
    description: str
    dark: bool
    colours: Mapping[str, Colour]
    syntax: Mapping[str, str]
    looks: Mapping[str, str]
    file: Path

    def palette(self, colours: bool = True, background: Rgb | None = None) -> Palette:
        """Styles for blocks. `background`: the terminal's background, if it reported one."""
        if not colours:
            return WITHOUT_COLOURS
        shades = Shades.of(self.colours, self.dark, background)
        syntax = {kind: shades.look(text) for kind, text in {**SYNTAX, **self.syntax}.items()}
        return Palette(name=self.name, dark=self.dark, syntax=syntax, **shades.styles(self.looks))

    def textual(self, colours: bool = True, background: Rgb | None = None) -> TextualTheme:
        """Theme for Textual's widgets. Without colours the app must also be created with `ansi_color=True`: Textual
        chooses its NO_COLOR filter at creation, and the other filter leaves shades of grey."""
        from textual.theme import Theme as TextualTheme

        named = self.colours if colours else dict.fromkeys((*REQUIRED, *OPTIONAL), Colour())
        shades = Shades.of(named, self.dark, background)
        css = {name: colour.css for name, colour in shades.colours.items()}
        return TextualTheme(
            name=self.name,
            dark=self.dark,
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
            variables=shades.variables(),
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


def theme_folders(config_dir: Path | None) -> tuple[Path, ...]:
    package = Path(__file__).parent.parent.parent
    installed = package / "data" / "themes"
    ours = installed if installed.is_dir() else package.parent / "themes"
    return (config_dir / "themes", ours) if config_dir else (ours,)


Given = Mapping[str, Mapping[str, Any] | Path]
"""Themes that are in no folder, by name: their values, or a file elsewhere."""


def load_theme(name: str, folders: Sequence[Path], given: Given = MappingProxyType({})) -> Theme:
    """Load a theme from the first folder that has it, else from `given`. Raises `ThemeError`."""
    return _make(*_read(name, folders, given))


def load_themes(
    folders: Sequence[Path],
    report: Callable[[str], None] = lambda _problem: None,
    given: Given = MappingProxyType({}),
) -> dict[str, Theme]:
    """All valid themes, sorted by name. `report` gets the problems of the others."""
    themes = {}
    for name in sorted({*(file.stem for folder in folders for file in _files(folder)), *given}):
        try:
            themes[name] = load_theme(name, folders, given)
        except ThemeError as error:
            report(str(error))
    return themes


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.toml"))
    except OSError:
        return []


def _read(name: str, folders: Sequence[Path], given: Given, depth: int = 0) -> tuple[Path, dict[str, Any]]:
    if not NAME.fullmatch(name):
        raise ThemeError(f"theme {name[:60]!r}", "", "a theme's name has only lowercase letters, digits and hyphens")
    files = [folder / f"{name}.toml" for folder in folders]
    place = next((place for place, file in enumerate(files) if file.is_file()), None)
    if place is not None:
        file = files[place]
        data = _parse(file)
    elif name in given:
        file = Path("plugins", f"{name}.toml")
        values = given[name]
        data = {**(_parse(values) if isinstance(values, Path) else values), "name": name}
    else:
        raise UnknownTheme(f"theme {name}", "", f"there is no {name}.toml in {' or '.join(map(str, folders))}")
    base = data.pop("extends", None)
    if base is None:
        return file, data
    if not isinstance(base, str):
        raise ThemeError(file, "extends", "expected the name of a theme")
    if depth >= _MAX_EXTENDS:
        raise ThemeError(file, "extends", f"at most {_MAX_EXTENDS} themes may extend one another")
    # A theme that extends its own name extends the built-in theme that it replaces.
    above = folders[place + 1 :] if base == name and place is not None else folders
    _file, below = _read(base, above, given, depth + 1)
    for key, value in data.items():
        both = isinstance(value, dict) and isinstance(below.get(key), dict)
        below[key] = {**below[key], **value} if both else value
    return file, {**below, "name": data.get("name", name)}


def _parse(file: Path) -> dict[str, Any]:
    content = read_bounded(file, _MAX_SIZE)
    if isinstance(content, Unread):
        if content.reason is Reason.TOO_LARGE:
            raise ThemeError(file, "", f"is larger than {byte_size(_MAX_SIZE)}, the limit for a theme")
        raise ThemeError(file, "", f"cannot be read: {content.detail or content.reason}")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ThemeError(file, "", "is not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ThemeError(file, "", f"is not valid TOML: {error}") from None


def _make(file: Path, data: dict[str, Any]) -> Theme:
    known = ("name", "description", "dark", "colors", "syntax", "palette")
    for key in data:
        if key not in known:
            raise ThemeError(file, key, f"unknown key; known keys: {', '.join(known)} and extends")
    if data.get("name", file.stem) != file.stem:
        raise ThemeError(file, "name", f"expected {file.stem!r}, the name of the file")
    description, dark = data.get("description", ""), data.get("dark")
    if not isinstance(description, str):
        raise ThemeError(file, "description", "expected a string")
    if not isinstance(dark, bool):
        raise ThemeError(file, "dark", "expected true or false")
    colours = _colours(file, _texts(file, data, "colors", (*REQUIRED, *OPTIONAL)))
    shades = Shades.of(colours, dark)
    looks = _texts(file, data, "palette", sorted(_LOOKS))
    syntax = _texts(file, data, "syntax", sorted(SYNTAX))
    for section, texts in (("palette", looks), ("syntax", syntax)):
        for key, text in texts.items():
            if not isinstance(problem := parse_look(text, shades.colours), Style):
                raise ThemeError(file, f"{section}.{key}", f"{problem}; expected {_LOOK_FORM}")
    return Theme(file.stem, plain_line(description, 80), dark, colours, syntax, looks, file)


def _colours(file: Path, texts: Mapping[str, str]) -> dict[str, Colour]:
    colours = {}
    for name, text in texts.items():
        colour = parse_colour(text)
        if colour is None:
            raise ThemeError(file, f"colors.{name}", f"{text[:40]!r} is not a colour; expected {_COLOUR_FORM}")
        colours[name] = colour
    for name in REQUIRED:
        if name not in colours:
            raise ThemeError(file, f"colors.{name}", f"is missing; expected {_COLOUR_FORM}")
    return colours


def _texts(file: Path, data: Mapping[str, Any], section: str, known: Sequence[str]) -> dict[str, str]:
    table = data.get(section, {})
    if not isinstance(table, dict):
        raise ThemeError(file, section, f"expected a table [{section}]")
    for key, value in table.items():
        if key not in known:
            raise ThemeError(file, f"{section}.{key}", f"unknown key; known keys: {', '.join(known)}")
        if not isinstance(value, str):
            raise ThemeError(file, f"{section}.{key}", "expected a string in quotes")
    return dict(table)


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
        return [(file, found.st_mtime_ns, found.st_size) for file in _files(folder) for found in (file.stat(),)]
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
