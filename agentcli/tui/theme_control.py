"""Applies the active theme to all screens, changes it, and saves the look for the instant prompt of the next start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.style import Style
from textual.worker import Worker

from agentcli.config.themes import Given, ThemeError, theme_folders
from agentcli.tui.prompt.box import IDLE_HINT, PromptMark, PromptRule
from agentcli.tui.screens.sheet import Sheet
from agentcli.tui.terminal.instant import look_path, save_look
from agentcli.tui.theme.palette import Palette
from agentcli.tui.theme.themes import ActiveTheme, apply_theme, watch_themes

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.tui.app import AgentApp
    from agentcli.tui.chat import ChatScreen

_SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT, "16": ColorSystem.STANDARD}
_SGR = re.compile(r"\x1b\[([\d;]*)m")


def keep_look(chat: ChatScreen, environ: Mapping[str, str], colours: str) -> None:
    path = look_path(environ)
    if path and chat.is_attached:
        save_look(path, look_of(chat, _SYSTEMS.get(colours)))


def look_of(chat: ChatScreen, system: ColorSystem | None) -> dict[str, str]:
    def numbers(style: Style) -> str:
        found = _SGR.match(style.render("x", color_system=system)) if system is not None else None
        return found.group(1) if found else ""

    rule, mark, palette = chat.query_one(PromptRule), chat.query_one(PromptMark), chat.palette
    background = chat.rich_style.background_style
    return {
        "background": numbers(background),
        "rule": numbers(rule.rich_style),
        "mark": numbers(mark.rich_style),
        "text": numbers(palette.text),
        "placeholder": numbers(palette.faint),
        "status": numbers(palette.muted),
        "label_style": numbers(palette.muted),
        "placeholder_text": IDLE_HINT,
    }


class ThemeControl:
    """`active` is the theme in use. Warnings about it become notes in the transcript."""

    def __init__(self, app: AgentApp) -> None:
        self._app = app
        self._watching: Worker[None] | None = None
        preferences = app.preferences
        folders = theme_folders(preferences.paths.config_dir)
        self.active = ActiveTheme(folders, preferences.theme, preferences.environ, self._plugin_themes)

    def begin(self) -> None:
        """Call after the first frame: report a problem of the configured theme and watch its file."""
        if not self.active.is_unknown:
            self._report_problem()
        self._watch_file()

    def watch_plugins(self, engine: Engine) -> None:
        """Reload the theme when a plugin of a new engine adds or changes it."""
        if engine.session.plugins is not None:
            engine.session.plugins.on_change = self._plugins_changed

    def plugins_loaded(self) -> None:
        """Report a theme that is still unknown although plugins could have added it."""
        if self.active.is_unknown:
            self.active.is_unknown = False
            self._report_problem()

    def use(self, name: str) -> None:
        """Change the theme. Raises `ThemeError`, and changes nothing then."""
        self.active.check(name)
        self.try_out(name)

    def try_out(self, name: str) -> Palette:
        """Change the theme; the default one replaces a theme that cannot be read."""
        self.active.select(name)
        palette = self._apply()
        self._report_problem()
        return palette

    def learn_background(self, rgb: tuple[int, int, int], is_light: bool) -> None:
        """Handle the terminal's report of its background colour."""
        before = self.active.palette
        self.active.learn_background(rgb, is_light)
        if self.active.palette != before:
            self._apply()

    def _plugin_themes(self) -> Given:
        chat = getattr(self._app, "chat", None)  # the theme is read before there is one
        engine: Engine | None = chat.session.engine if chat is not None else None
        return engine.session.plugins.themes() if engine is not None and engine.session.plugins is not None else {}

    def _plugins_changed(self) -> None:
        if self.active.setting in self._plugin_themes():
            self._reload()

    def _apply(self) -> Palette:
        app, palette = self._app, self.active.palette
        apply_theme(app, self.active.textual)
        app.chat.set_palette(palette)
        for screen in app.screen_stack:
            if isinstance(screen, Sheet):
                screen.set_palette(palette)
        self._watch_file()
        return palette

    def _watch_file(self) -> None:
        """Reload a theme from the user's own folder whenever its file changes."""
        if self._watching is None and (folder := self.active.own_folder) is not None:
            self._watching = self._app.run_worker(watch_themes(folder, self._reload), exit_on_error=False)

    def _reload(self) -> None:
        try:
            self.use(self.active.setting)
        except ThemeError as error:
            # The file may be half written.
            self._warn(str(error))

    def _report_problem(self) -> None:
        if self.active.problem:
            self._warn(self.active.problem)

    def _warn(self, text: str) -> None:
        chat = self._app.chat
        chat.apply(chat.session.presenter.note(text, "warning"))
