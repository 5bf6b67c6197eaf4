"""Renders the screen below a sheet in the rows that the sheet leaves free."""

from __future__ import annotations

from typing import Any

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.css.styles import RulesMap
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from agentcli.tui.textual_internals import rows_of


class ScreenBelow(Visual):
    """Rows of a screen, without clickable links. Textual's own way through Rich takes twice as long."""

    def __init__(self, screen: Screen[Any]) -> None:
        self._screen = screen

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        base = style.rich_style
        looks: dict[RichStyle | None, RichStyle] = {None: base}
        strips: list[Strip] = []
        for row in rows_of(self._screen)[:height]:
            segments: list[Segment] = []
            for text, look, _control in row:
                if look not in looks:
                    looks[look] = base + look.clear_meta_and_links() if look else base
                segments.append(Segment(text, looks[look]))
            strip = Strip(segments, row.cell_length)
            strips.append(strip if row.cell_length <= width else strip.crop(0, width))
        return strips

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height
