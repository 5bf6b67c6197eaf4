"""Picker for the theme: previews the selected theme on the whole screen; Esc restores the old one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.tui.screens.model import IN_FORCE
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.text import Runs, joined
from agentcli.tui.theme.palette import Palette

ThemeChoice = tuple[str, str, bool]
Try = Callable[[str], Palette | None]
"""Applies a theme. Returns the palette for the picker itself, or None to keep its palette."""


class ThemePicker(Picker[str]):
    """Returns the name of the theme or `auto`. The theme is already applied then."""

    def __init__(self, themes: Sequence[ThemeChoice], current: str, preview: Try) -> None:
        described = "dark or light, as the terminal's background is"
        rows = [Row("auto", "auto", described, IN_FORCE if current == "auto" else "", "Automatic")]
        rows += [
            Row(name, name, description, IN_FORCE if name == current else "", "Dark" if dark else "Light")
            for name, description, dark in sorted(themes, key=lambda theme: not theme[2])
        ]
        super().__init__("Theme", rows, start=current)
        self._try = preview
        self._before = current
        self._on = current

    def moved(self, row: Row[str] | None) -> None:
        # No theme matches the query: show the original one instead of the last match.
        self._put_on(row.value if row is not None else self._before)

    def leave(self) -> None:
        self._put_on(self._before)
        super().leave()

    def _put_on(self, name: str) -> None:
        if name == self._on:
            return
        self._on = name
        palette = self._try(name)
        if palette is not None:
            self.palette = palette
            self.call_after_refresh(self.paint)

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        palette = self.palette
        samples: list[Runs] = [
            [("text", palette.text), (" ", palette.text), ("muted", palette.muted)],
            [("heading", palette.heading)],
            [("code", palette.code)],
            [("✓ done", palette.success)],
            [("! careful", palette.warning)],
            [("✗ failed", palette.error)],
            [("+ added", palette.added), (" ", palette.text), ("- removed", palette.removed)],
        ]
        return [joined(samples, ("  ", palette.text))]
