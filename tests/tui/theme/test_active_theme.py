"""Which theme is active: by name, by the terminal's background, and when a theme cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.config.themes import ThemeError, theme_folders
from agentcli.tui.theme.themes import ActiveTheme

TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def active_theme(tmp_path: Path, setting: str = "auto", **environ: str) -> ActiveTheme:
    return ActiveTheme(theme_folders(tmp_path), setting, {**TERMINAL, **environ})


@pytest.mark.parametrize(("setting", "before", "after"), [("auto", "dark", "light"), ("nord", "nord", "nord")])
def test_auto_follows_the_background_that_the_terminal_reports(
    tmp_path: Path, setting: str, before: str, after: str
) -> None:
    found = active_theme(tmp_path, setting)
    assert found.theme.name == before
    found.learn_background((250, 250, 250), light=True)
    assert found.theme.name == after


def test_a_light_theme_paints_its_own_background_where_the_terminal_may_be_dark(tmp_path: Path) -> None:
    found = active_theme(tmp_path, "light")
    assert found.textual.background.startswith("#")
    found.learn_background((255, 255, 255), light=True)
    assert found.textual.background == "ansi_default"
    assert not active_theme(tmp_path, "nord", NO_COLOR="1").palette.colours


def test_a_users_theme_is_watched_and_a_broken_one_reported(tmp_path: Path) -> None:
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "mine.toml").write_text('extends = "nord"')
    (tmp_path / "themes" / "broken.toml").write_text("name = 1")
    assert active_theme(tmp_path, "mine").own_folder == tmp_path / "themes"
    found = active_theme(tmp_path, "broken")
    assert (found.theme.name, found.own_folder) == ("dark", None)
    assert "broken.toml" in found.problem
    with pytest.raises(ThemeError):
        found.check("nothing-like-it")
