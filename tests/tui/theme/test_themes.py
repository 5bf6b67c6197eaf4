"""Themes: the built-in ones are readable, those of users are checked, and Textual paints the right colours."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from agentcli.config.themes import Theme, ThemeError, load_theme, load_themes, theme_folders
from agentcli.core.looks import (
    ASSUMED_DARK,
    ASSUMED_LIGHT,
    BLACK,
    LOOKS,
    PAIRS,
    SYNTAX,
    Colour,
    Look,
    Rgb,
    Shades,
    contrast,
    parse_colour,
    read_look,
)
from agentcli.tui.theme.palette import WITHOUT_COLOURS, Palette, rich_colour, style_of
from agentcli.tui.theme.themes import (
    apply_theme,
    begin_with_theme,
    choose_theme,
    palette_of,
    textual_theme,
    watch_themes,
)

pytestmark = pytest.mark.anyio

OURS = theme_folders(None)
STYLE = Path(__file__).parents[3] / "agentcli" / "tui" / "style.tcss"
NAMES = sorted(file.stem for file in OURS[0].glob("*.toml"))
IN_RGB = [name for name in NAMES if not name.startswith("ansi")]
DARK_TERMINALS: tuple[Rgb, ...] = ((0, 0, 0), ASSUMED_DARK, (0x28, 0x2C, 0x34))
LIGHT_TERMINALS: tuple[Rgb, ...] = ((255, 255, 255), ASSUMED_LIGHT, (0xF5, 0xF0, 0xE6))


def grounds(theme: Theme) -> tuple[Rgb, ...]:
    """What may be behind the text of a theme: its own background, or that of the terminals it is meant for."""
    own = theme.colours["background"].rgb
    return (own,) if own else DARK_TERMINALS if theme.dark else LIGHT_TERMINALS


def rgb(style: Style) -> tuple[Rgb, Rgb]:
    assert style.color
    assert style.color.triplet
    assert style.bgcolor
    assert style.bgcolor.triplet
    return (*style.color.triplet,), (*style.bgcolor.triplet,)


# ------------------------------------------------------------------------------------------------------ what we ship


def test_the_documented_themes_exist() -> None:
    promised = (
        "dark light high-contrast-dark high-contrast-light colour-blind-dark colour-blind-light ansi catppuccin-mocha "
        "catppuccin-latte nord gruvbox-dark solarized-dark solarized-light tokyo-night dracula rose-pine"
    )
    problems: list[str] = []
    themes = load_themes(OURS, problems.append)
    assert problems == []
    assert set(promised.split()) <= set(themes)
    assert all(theme.description for theme in themes.values())


@pytest.mark.parametrize("name", IN_RGB)
def test_text_stands_out_from_every_background_it_may_be_on(name: str) -> None:
    theme = load_theme(name, OURS)
    body = 7.0 if name.startswith("high-contrast") else 4.5
    for ground in grounds(theme):
        shades = Shades.of(theme.colours, theme.dark, ground)
        for colour in ("foreground", "accent", "success", "warning", "error", "blue", "cyan", "yellow"):
            assert contrast(shades.colours[colour].rgb or ground, ground) >= body, f"{colour} on {ground}"
        assert contrast(shades.colours["muted"].rgb or ground, ground) >= min(body, 4.0)
        assert contrast(shades.colours["faint"].rgb or ground, ground) >= 2.4
        assert contrast(shades.colours["foreground"].rgb or ground, shades.colours["selection"].rgb or ground) >= 4.5


@pytest.mark.parametrize("name", IN_RGB)
def test_text_on_a_background_of_its_own_is_readable_there(name: str) -> None:
    theme = load_theme(name, OURS)
    for ground in grounds(theme):
        palette = palette_of(theme, background=ground)
        for meaning in (*PAIRS, "surface", "code_block", "chip"):
            text, behind = rgb(getattr(palette, meaning))
            assert contrast(text, behind) >= 4.5, f"{meaning} {text} on {behind}"
        _text, code = rgb(palette.code_block)
        for kind, style in palette.syntax.items():
            assert style.color is not None
            assert contrast((*style.color.triplet,), code) >= 3.9, kind  # type: ignore[misc]


@pytest.mark.parametrize("name", ["colour-blind-dark", "colour-blind-light"])
def test_additions_and_removals_differ_for_red_green_colour_blindness(name: str) -> None:
    """Without red and green as separate signals, blue against the rest is what is left."""
    palette = palette_of(load_theme(name, OURS))
    for one, other in (("added", "removed"), ("added_word", "removed_word")):
        (_text, added), (_other_text, removed) = rgb(getattr(palette, one)), rgb(getattr(palette, other))
        assert added[2] - removed[2] >= 25
        assert removed[0] - added[0] >= 20
    for one, other in (("success", "error"), ("success", "warning")):
        good, bad = (getattr(palette, meaning).color.triplet for meaning in (one, other))
        assert good.blue - bad.blue >= 60


@pytest.mark.parametrize("name", ["ansi", "ansi-light"])
def test_the_ansi_themes_use_nothing_but_the_colours_of_the_terminal(name: str) -> None:
    theme = load_theme(name, OURS)
    palette = palette_of(theme)
    styles = [getattr(palette, meaning) for meaning in (*LOOKS, *PAIRS)] + list(palette.syntax.values())
    colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour]
    assert all(colour.is_default or colour.number < 16 for colour in colours)
    assert not [value for value in textual_theme(theme).variables.values() if value.startswith("#")]


def test_the_styles_are_all_those_that_blocks_know() -> None:
    named = {field.name for field in fields(Palette)} - {"name", "dark", "colours", "syntax"}
    assert named == {*LOOKS, *PAIRS}
    assert set(SYNTAX) == set(Palette().syntax)


def test_without_colours_every_style_still_has_none() -> None:
    palette = palette_of(load_theme("dracula", OURS), colours=False)
    assert palette is WITHOUT_COLOURS
    assert not palette.colours
    styles = [getattr(palette, meaning) for meaning in (*LOOKS, *PAIRS)] + list(palette.syntax.values())
    assert all(style.color is None and style.bgcolor is None for style in styles)
    assert palette.added != palette.removed
    assert palette.match != palette.match_current
    assert palette.error != palette.text


def test_a_light_theme_on_a_dark_terminal_brings_its_own_background() -> None:
    light = load_theme("light", OURS)
    assert textual_theme(light, background=(255, 255, 255)).background == "ansi_default"
    assert textual_theme(light, background=(20, 20, 20)).background == Colour(ASSUMED_LIGHT).css
    assert textual_theme(load_theme("ansi", OURS), background=(255, 255, 255)).background == "ansi_default"


def test_shades_follow_the_reported_background() -> None:
    dark = load_theme("dark", OURS)
    on_black, on_blue = (palette_of(dark, background=ground).code_block for ground in ((0, 0, 0), (0, 0, 60)))
    assert rgb(on_blue)[1][2] > rgb(on_black)[1][2] + 40


# ------------------------------------------------------------------------------------------------- what users write


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_users_theme_may_extend_a_built_in_one_in_three_lines_and_replace_it(tmp_path: Path) -> None:
    write(tmp_path, "mine", 'extends = "nord"\n[colors]\naccent = "#ff0000"\n[palette]\nuser = "italic accent"\n')
    theme = load_theme("mine", (tmp_path, *OURS))
    assert theme.name == "mine"
    assert theme.colours["accent"] == Colour((255, 0, 0))
    assert theme.colours["background"] == load_theme("nord", OURS).colours["background"]
    assert palette_of(theme).user == Style(italic=True, color=rich_colour(Colour((255, 0, 0))))
    write(tmp_path, "dark", 'extends = "dark"\n[colors]\naccent = "#00ff00"\n')
    themes = load_themes((tmp_path, *OURS))
    assert themes["dark"].colours["accent"] == Colour((0, 255, 0)), "it replaces the one that it extends"
    assert themes["dark"].file.parent == tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dark = ", "is not valid TOML"),
        ("dark = 1", "bad.toml, dark: expected true or false"),
        ('dark = true\nname = "other"', "bad.toml, name: expected 'bad'"),
        ("dark = true\ncolour = 1", "bad.toml, colour: unknown key"),
        ("dark = true\ncolors = 3", "bad.toml, colors: expected a table"),
        ("dark = true\n[colors]\nforeground = 3", "bad.toml, colors.foreground: expected a string"),
        ("dark = true\n[colors]\nshine = '#ffffff'", "bad.toml, colors.shine: unknown key"),
        ("dark = true\n[colors]\nforeground = 'salmon'", "bad.toml, colors.foreground: 'salmon' is not a colour"),
        ("dark = true\n[colors]\nforeground = '#ffffff'", "bad.toml, colors.background: is missing"),
        ("extends = 'dark'\n[palette]\nuser = 'shiny'", "bad.toml, palette.user: 'shiny' is neither a colour"),
        ("extends = 'dark'\n[palette]\nuser = 'bold on'", "bad.toml, palette.user: a colour must follow"),
        ("extends = 'dark'\n[syntax]\nkeyword = ''", "bad.toml, syntax.keyword: it is empty"),
        ("extends = 'dark'\n[syntax]\nverb = 'red'", "bad.toml, syntax.verb: unknown key"),
        ("extends = 'nothing'", "there is no nothing.toml"),
        ("extends = '../../etc/passwd'", "lowercase letters"),
        ("extends = 'bad'", "there is no bad.toml"),
        ("extends = 3", "expected the name of a theme"),
        ("x = " + "[" * 3000, "is not valid TOML"),
        ("#" * 70_000, "is larger than 64 KB"),
    ],
)
def test_a_theme_error_names_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, "bad", text)
    problems: list[str] = []
    themes = load_themes((tmp_path, *OURS), problems.append)
    assert "bad" not in themes
    assert set(NAMES) <= set(themes)
    assert len(problems) == 1
    assert said in problems[0]


VALUES = [
    "#fff; } Screen { display: none",
    "\\u001b[31m",
    "red",
    "[bold]",
    "link=https://x.example",
    "#12345g",
    "$accent",
    "",
]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_is_no_colour_is_refused_and_shown_without_control_characters(tmp_path: Path, value: str) -> None:
    write(tmp_path, "bad", f'extends = "dark"\n[colors]\naccent = "{value}"\n')
    with pytest.raises(ThemeError) as caught:
        load_theme("bad", (tmp_path, *OURS))
    assert "colors.accent" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_themes_that_extend_one_another_without_end_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "one", 'extends = "two"')
    write(tmp_path, "two", 'extends = "one"')
    with pytest.raises(ThemeError, match="at most 4 themes"):
        load_theme("one", (tmp_path, *OURS))
    write(tmp_path, "nord", "dark = 3")
    assert "nord" not in load_themes((tmp_path, *OURS)), "the built-in one does not replace it"


@pytest.mark.parametrize("name", ["", "../dark", "Dark", "dark.toml", "a" * 50, "a\x1bb"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ThemeError, match="lowercase letters"):
        load_theme(name, OURS)


# ---------------------------------------------------------------------------------------------------------- choosing

FULL = {"COLORTERM": "truecolor", "TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("setting", "light", "environ", "chosen"),
    [
        ("auto", None, FULL, "dark"),
        ("", True, FULL, "light"),
        ("auto", False, {**FULL, "COLORFGBG": "0;15"}, "dark"),
        ("auto", None, {**FULL, "COLORFGBG": "0;default;15"}, "light"),
        ("auto", None, {**FULL, "COLORFGBG": "15;0"}, "dark"),
        ("auto", None, {"TERM": "linux"}, "ansi"),
        ("auto", True, {"TERM": "xterm"}, "ansi-light"),
        ("auto", None, {"TERM": "xterm-256color"}, "dark"),
        ("nord", True, FULL, "nord"),
        ("auto", True, {**FULL, "NO_COLOR": "1"}, "light"),
        ("auto", None, {**FULL, "NO_COLOR": ""}, "dark"),
    ],
)
def test_auto_follows_the_terminal(setting: str, light: bool | None, environ: dict[str, str], chosen: str) -> None:
    assert choose_theme(setting, light, environ) == chosen
    assert chosen in NAMES


# ---------------------------------------------------------------------------------------------------------- colours


def test_a_look_is_attributes_and_at_most_two_colours() -> None:
    colours = {"accent": Colour((1, 2, 3))}
    assert read_look("bold accent on ansi-red", colours) == Look(Colour((1, 2, 3)), Colour(ansi=1), ("bold",))
    assert style_of(Shades(colours, BLACK, True).look("bold accent on ansi-red")) == Style.parse(
        "bold #010203 on color(1)"
    )
    assert read_look("plain", colours) == Look()
    assert style_of(Shades(colours, BLACK, True).look("on terminal")) == Style.parse("on default")
    assert read_look("accent accent", colours) == "'accent' is one colour too many"
    assert read_look("blink", colours) == "'blink' is neither a colour nor an attribute"
    assert read_look("on accent bold", colours) == "'bold' is neither a colour nor an attribute"
    assert parse_colour("#FFaa00") == Colour((255, 170, 0))


# ---------------------------------------------------------------------------------------------------------- Textual


class Dialog(ModalScreen[None]):
    CSS = "Dialog Vertical { width: 30; height: 6; background: $surface; }"

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder="search")
            yield TextArea("text")


class Host(App[None]):
    CSS_PATH = STYLE

    def __init__(self, theme: Theme, colours: bool = True) -> None:
        super().__init__(ansi_color=None if colours else True)
        begin_with_theme(self, textual_theme(theme, colours))

    def compose(self) -> ComposeResult:
        yield Input("input")
        yield TextArea("text")
        yield Static("page", markup=False)


def painted(app: App[None]) -> list[Style]:
    strips = app.screen._compositor.render_strips()
    return [segment.style for strip in strips for segment in strip if segment.style]


async def show(app: App[None], *, dialog: bool = False) -> list[Style]:
    async with app.run_test(size=(60, 20)) as pilot:
        if dialog:
            await app.push_screen(Dialog())
        await pilot.pause()
        return painted(app)


@pytest.mark.parametrize("dialog", [False, True])
async def test_the_terminals_own_background_stays_also_under_a_dialog(dialog: bool) -> None:
    page = [style.bgcolor for style in (await show(Host(load_theme("dark", OURS)), dialog=dialog))[-3:]]
    assert all(colour is None or colour.is_default for colour in page)


async def test_a_theme_with_a_background_paints_it_everywhere() -> None:
    styles = await show(Host(load_theme("nord", OURS)))
    assert all(style.bgcolor is not None and not style.bgcolor.is_default for style in styles)


@pytest.mark.parametrize("name", ["ansi", "ansi-light"])
async def test_sixteen_colours_stay_sixteen_in_widgets_and_dialogs(name: str) -> None:
    styles = await show(Host(load_theme(name, OURS)), dialog=True)
    assert all(colour is None or colour.triplet is None for style in styles for colour in (style.color, style.bgcolor))


async def test_without_colours_nothing_painted_has_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    styles = await show(Host(load_theme("dark", OURS), colours=False), dialog=True)
    assert all(colour is None or colour.is_default for style in styles for colour in (style.color, style.bgcolor))


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_of_textual_widgets_is_defined(name: str) -> None:
    """A missing one ends the app as soon as a rule names it. `ansi` themes lack some that the others get."""
    from textual.design import ColorSystem

    variables = textual_theme(load_theme(name, OURS)).to_color_system().generate()
    assert set(ColorSystem("#112233").generate()) <= set(variables)


async def test_another_theme_and_a_changed_one_of_the_same_name_are_painted(tmp_path: Path) -> None:
    themes = load_themes(OURS)
    app = Host(themes["dark"])
    write(tmp_path, "nord", 'extends = "nord"\n[colors]\nbackground = "#010203"')
    themes["changed"] = load_theme("nord", (tmp_path, *OURS))
    backgrounds = {"nord": "#2e3440", "changed": "#010203", "dark": "default", "dracula": "#282a36", "ansi": "default"}

    async with app.run_test(size=(60, 12)) as pilot:
        for name, background in backgrounds.items():
            apply_theme(app, textual_theme(themes[name]))
            await pilot.pause()
            last = app.screen._compositor.render_strips()[-1]
            assert {segment.style.bgcolor.name for segment in last if segment.style} == {background}  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------------------- watching


async def test_a_change_in_the_users_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcli.tui.theme.themes.WATCH_SECONDS", 0.01)
    changed = asyncio.Event()
    watching = asyncio.create_task(watch_themes(tmp_path, changed.set))
    await asyncio.sleep(0.1)
    assert not changed.is_set()
    write(tmp_path, "mine", "#")
    await asyncio.wait_for(changed.wait(), 20)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_an_installed_package_can_provide_themes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "agentcli" / "data" / "themes"
    shutil.copytree(OURS[0], installed)
    monkeypatch.setattr("agentcli.config.themes.__file__", str(tmp_path / "agentcli" / "config" / "themes.py"))
    assert theme_folders(None) == (installed,)
    assert theme_folders(tmp_path) == (tmp_path / "themes", installed)
    assert load_theme("dark", theme_folders(None)).dark
