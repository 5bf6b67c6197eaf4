"""Plugins in the app: their renderers, their themes, and a saved file that is loaded while the app runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.tui.app import AgentApp
from agentcli.tui.blocks import displays
from agentcli.tui.startup.preferences import load_preferences
from agentcli.tui.theme.palette import Palette
from tests.support.scripts import call, reply
from tests.tui.test_app import Desk, idle, sends, shown, until

EXAMPLES = Path(__file__).parent.parent / "data" / "plugins"


def install(home: Path, *names: str) -> Path:
    folder = home / ".config/agentcli/plugins"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(EXAMPLES / f"{name}.py", folder)
    return folder


def wear_moss(desk: Desk) -> None:
    start = desk.app._start_with
    desk.app = AgentApp(start, load_preferences(desk.project, start.environ, None, "moss"))


def test_a_renderer_and_a_theme_are_used_and_a_saved_plugin_is_loaded_again(tmp_path: Path) -> None:
    folder = install(tmp_path, "word_count", "bars", "moss")

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        engine = app.chat.session.engine
        assert engine is not None
        plugins = engine.session.plugins
        assert plugins is not None
        await until(pilot, lambda: plugins.loaded)
        await until(pilot, lambda: app.themes.active.theme.name == "moss")
        assert "there is no moss" not in shown(app)
        assert ("moss", "Green on near black") in app.chat.actions.front_end.themes()
        await sends(pilot, app, "count")
        await idle(pilot, app)
        assert "### 3 words" in shown(app)
        path = folder / "word_count.py"
        path.write_text(path.read_text().replace("word_count", "count_words"))
        os.utime(path, (1, 1))
        await until(pilot, lambda: "Plugin word_count loaded: tool count_words." in shown(app))
        path.write_text("nonsense(")
        await until(pilot, lambda: "word_count.py:1: SyntaxError" in shown(app))

    desk = Desk(tmp_path, reply(call("word_count", text="a b c")), "Three.")
    wear_moss(desk)
    desk.play(script, (100, 40))


def test_a_theme_that_no_plugin_adds_is_reported(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: "there is no moss.toml" in shown(app))
        assert app.themes.active.theme.name == "dark"

    desk = Desk(tmp_path)
    wear_moss(desk)
    desk.play(script)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([[["ab", "success"], [" c", "text"]], [["[bold]d", "no style"]]], ["ab c", "[bold]d"]),
        ([[["x", 1]], "y", None], ["", "", ""]),
        ("text", []),
    ],
)
def test_lines_of_a_session_file_are_shown_whatever_they_are(lines: object, expected: list[str]) -> None:
    found = displays.shown({"kind": "lines", "lines": lines}, displays.DisplayView(40, Palette()))
    assert [line.text.rstrip() for line in found.lines] == expected
