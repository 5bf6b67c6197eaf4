"""All private Textual names that the app uses, each with the reason. A test reports uses that are not listed here.

Functions wrap names that can be called from outside. `INHERITED` lists names that only a subclass can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.app import App
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

INHERITED: Mapping[str, Mapping[str, str]] = {
    "painted_app": {
        "_display": "the driver writes only what the terminal does not show yet",
        "_handle_exception _fatal_error": "an error is raised again after the terminal is restored",
        "ChopsUpdate Compositor LayoutUpdate _dirty_regions": "the compositor that is extended",
    },
    "terminal.input": {
        "XTermParser _sequence_to_key_events": "the names of keys are those of Textual's parser",
    },
    "transcript.widget": {
        "_size_updated": "rows are placed before the screen is painted",
    },
}
"""By module of `agentcli.tui`: private names that a subclass calls or overrides, and why."""


def use_compositor(screen: Screen[Any], compositor: Compositor) -> None:
    """Replace the compositor before the first layout."""
    screen._compositor = compositor


def paint_now(screen: Screen[Any], widgets: Iterable[Widget]) -> None:
    """Paint these widgets now, without waiting until they are idle."""
    screen._dirty_widgets |= set(widgets)
    screen._on_timer_update()


def strips_of(update: object) -> list[tuple[int, int, Strip]]:
    """Column, row and strip of everything in a compositor update."""
    placed: list[tuple[int, int, Strip]] = []
    if isinstance(update, LayoutUpdate):
        for y, strips in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in strips:
                placed.append((x, y, strip))
                x += strip.cell_length
    elif isinstance(update, ChopsUpdate):
        for y, left, right in update.spans:
            for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if chop is not None and x <= right and end > left:
                    placed.append((x, y, chop if x >= left and end <= right else chop.crop(0, min(end, right) - x)))
    return placed


def refresh_colour_filter(app: App[Any]) -> None:
    """Do what the watcher of `theme` does, apart from reading the style sheets."""
    app._refresh_truecolor_filter(app.ansi_theme)
