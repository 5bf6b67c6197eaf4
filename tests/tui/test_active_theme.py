"""Which theme is active: by name, by the terminal's background, and when a theme cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.tui.theme.themes import ActiveTheme, ThemeError, theme_folders

TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def active_theme(tmp_path: Path, setting: str = "auto", **environ: str) -> ActiveTheme:
    return ActiveTheme(theme_folders(tmp_path), setting, {**TERMINAL, **environ})


def test_auto_follows_the_background_that_the_terminal_reports(tmp_path: Path) -> None:
    found = active_theme(tmp_path)
    assert found.theme.name == "dark"
    found.learn_background((250, 250, 250), light=True)
    assert found.theme.name == "light"


def test_a_named_theme_stays_whatever_the_terminal_reports(tmp_path: Path) -> None:
    found = active_theme(tmp_path, "nord")
    found.learn_background((250, 250, 250), light=True)
    assert found.theme.name == "nord"


def test_a_light_theme_paints_its_own_background_where_the_terminal_may_be_dark(tmp_path: Path) -> None:
    found = active_theme(tmp_path, "light")
    assert found.textual.background.startswith("#")
    found.learn_background((255, 255, 255), light=True)
    assert found.textual.background == "ansi_default"


def test_a_broken_theme_is_reported_and_the_default_one_is_used(tmp_path: Path) -> None:
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "mine.toml").write_text("name = 1")
    found = active_theme(tmp_path, "mine")
    assert found.theme.name == "dark"
    assert "mine.toml" in found.problem
    with pytest.raises(ThemeError):
        found.check("nothing-like-it")
    assert found.own_folder is None


def test_a_user_theme_is_watched_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "themes").mkdir()
    shipped = theme_folders(None)[0] / "nord.toml"
    (tmp_path / "themes" / "mine.toml").write_text(shipped.read_text().replace('"nord"', '"mine"', 1))
    assert active_theme(tmp_path, "mine").own_folder == tmp_path / "themes"


def test_no_color_means_no_colour(tmp_path: Path) -> None:
    assert not active_theme(tmp_path, "nord", NO_COLOR="1").palette.colours
