"""The private Textual names that can be called from outside, and a quick compositor for all screens.

A test lists the private names that only a subclass can use.

`QuickCompositor` is a faster version of Textual's: a frame of a streamed answer takes 3.9 instead of 6.7 ms of
processor time. For every change Textual renders all widgets of a screen, including covered ones, cuts all rows at all
edges and creates objects for every cursor move. Here each layout computes once which widget is visible in which cells
of a row; a change then renders only the affected rows of the visible widgets. The result is identical cell by cell,
except that wide characters are not cut at the edges of widgets behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual.app import App
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget


def use_quick_compositor(screen: Screen[Any]) -> None:
    """Replace the compositor of a screen before its first layout."""
    screen._compositor = QuickCompositor()


def paint_now(screen: Screen[Any], widgets: Iterable[Widget]) -> None:
    """Paint these widgets now, without waiting until they are idle."""
    screen._dirty_widgets |= set(widgets)
    screen._on_timer_update()


def refresh_colour_filter(app: App[Any]) -> None:
    """Do what the watcher of `theme` does, apart from reading the style sheets."""
    app._refresh_truecolor_filter(app.ansi_theme)


class WidgetSpan(NamedTuple):
    """Cells of one row in which a widget is visible."""

    left: int
    right: int
    widget: Widget
    region: Region
    """Position of the whole widget, including parts outside of the screen."""
    shown: Region
    """The part of `region` that is not clipped."""


Placed = tuple[int, int, Strip]
"""Column, row and strip."""


class QuickUpdate:
    """Strips to paint. `PaintedApp` gives them to the driver; Textual only passes the update on."""

    def __init__(self, strips: list[Placed]) -> None:
        self.strips = strips


class QuickCompositor(Compositor):
    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[list[WidgetSpan]] = []
        self._pieces_of: object = None
        """The `visible_widgets` that the pieces were computed from; a new object after every layout."""

    def render_partial_update(self) -> ChopsUpdate | None:
        regions = [region for region in self._dirty_regions if region]
        self._dirty_regions.clear()
        if not regions:
            return None
        spans = {(y, region.x, region.right) for region in regions for y in region.line_range}
        return QuickUpdate(self._strips(sorted(spans)))  # type: ignore[return-value]

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        if simplify:
            return super().render_full_update(simplify)
        self._dirty_regions.clear()
        width, height = self.size
        return QuickUpdate(self._strips([(y, 0, width) for y in range(height)]))  # type: ignore[return-value]

    def _strips(self, spans: list[tuple[int, int, int]]) -> list[Placed]:
        visible = self.visible_widgets
        if self._pieces_of is not visible:
            self._pieces_of = visible
            self._pieces = _shown(visible.items(), self.size.region)
        rows = self._pieces
        due: list[tuple[int, int, WidgetSpan]] = []
        lines: dict[Widget, tuple[int, int, WidgetSpan]] = {}
        """Needed rows of each widget (first, last), and any of its pieces."""
        for y, left, right in spans:
            for piece in rows[y] if 0 <= y < len(rows) else ():
                if piece.left < right and piece.right > left:
                    # Start at the widget's first visible cell, since half a wide character cannot be written.
                    due.append((y, min(right, piece.right), piece))
                    first = lines[piece.widget][0] if piece.widget in lines else y
                    lines[piece.widget] = first, y, piece
        rendered = {widget: _render(*needed) for widget, needed in lines.items()}
        placed: list[Placed] = []
        for y, right, piece in due:
            strips, row, origin = rendered[piece.widget], y - lines[piece.widget][0], piece.shown.x
            if row < len(strips):
                placed.append((piece.left, y, strips[row].crop(piece.left - origin, right - origin)))
        return placed


def _render(first: int, last: int, piece: WidgetSpan) -> list[Strip]:
    region, shown = piece.region, piece.shown
    return piece.widget.render_lines(Region(shown.x - region.x, first - region.y, shown.width, last - first + 1))


def _shown(widgets: Iterable[tuple[Widget, tuple[Region, Region]]], screen: Region) -> list[list[WidgetSpan]]:
    """Visible pieces of every row. The widgets are ordered from front to back."""
    rows: list[list[WidgetSpan]] = [[] for _row in range(screen.height)]
    free: list[list[tuple[int, int]]] = [[(0, screen.width)] for _row in range(screen.height)]
    for widget, (region, clip) in widgets:
        shown = region.intersection(clip).intersection(screen)
        for y in shown.line_range if shown else ():
            if free[y]:
                taken = [(max(left, shown.x), min(right, shown.right)) for left, right in free[y]]
                rows[y] += [WidgetSpan(left, right, widget, region, shown) for left, right in taken if left < right]
                free[y] = list(_without(free[y], shown.x, shown.right))
    return [sorted(row, key=lambda piece: piece.left) for row in rows]


def _without(spans: list[tuple[int, int]], from_x: int, to_x: int) -> Iterator[tuple[int, int]]:
    for left, right in spans:
        if left < min(right, from_x):
            yield left, min(right, from_x)
        if max(left, to_x) < right:
            yield max(left, to_x), right
