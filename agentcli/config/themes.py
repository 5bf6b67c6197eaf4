"""Theme files: read and checked.

Built-in themes are in `themes/`, the user's in the folder `themes` beside their settings; a user's theme replaces a
built-in one of the same name. The start reads only the active theme, the theme picker reads the others.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agentcli.core.files.access import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.looks import LOOKS, MEANINGS, PAIRS, SYNTAX, Colour, Look, Shades, parse_colour, read_look
from agentcli.core.text.format import byte_size
from agentcli.core.text.plaintext import plain_line

REQUIRED = ("background", "foreground", "accent", "red", "orange", "yellow", "green", "cyan", "blue")
OPTIONAL = ("purple", "pink", "muted", "faint", "rule", "surface", "raised", "selection", *MEANINGS)
"""Derived from the required colours if a theme does not define them."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_COLOUR_FORM = "a colour: #rrggbb, ansi-red, ansi-bright-red … or terminal"
_LOOK_FORM = "a style such as `bold accent on #202020`"
_MAX_SIZE = 64 * 1024
_MAX_EXTENDS = 4


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


def theme_folders(config_dir: Path | None) -> tuple[Path, ...]:
    package = Path(__file__).parent.parent
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
    for name in sorted({*(file.stem for folder in folders for file in theme_files(folder)), *given}):
        try:
            themes[name] = load_theme(name, folders, given)
        except ThemeError as error:
            report(str(error))
    return themes


def theme_files(folder: Path) -> list[Path]:
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
    looks = _texts(file, data, "palette", sorted((*LOOKS, *PAIRS)))
    syntax = _texts(file, data, "syntax", sorted(SYNTAX))
    for section, texts in (("palette", looks), ("syntax", syntax)):
        for key, text in texts.items():
            if not isinstance(problem := read_look(text, shades.colours), Look):
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
