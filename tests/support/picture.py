"""A screen as a picture: SVG from what a terminal emulator holds, sharp at any size and readable as text.

Every run of characters gets the width that it has on the screen (`textLength`), so columns meet whatever font is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import pyte

CELL_WIDTH, CELL_HEIGHT, MARGIN, BAR = 8.4, 18, 14, 30
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
NO_BREAK = "\N{NO-BREAK SPACE}"
"""Several spaces in a row are one to whoever draws SVG."""
FOREGROUND, BACKGROUND = "d8d8d8", "1e1e1e"
NAMED = {
    "black": "2a2a2a",
    "red": "d46a6a",
    "green": "7fb069",
    "brown": "d9b55a",
    "blue": "6a9fd4",
    "magenta": "b78ad0",
    "cyan": "5cb8b2",
    "white": "d8d8d8",
    "brightblack": "808080",
    "brightred": "ee8888",
    "brightgreen": "a0d08a",
    "brightbrown": "f0d080",
    "brightblue": "90bff0",
    "brightmagenta": "d0a8e8",
    "brightcyan": "88d8d0",
    "brightwhite": "ffffff",
}


@dataclass(frozen=True)
class Style:
    foreground: str
    background: str
    bold: bool
    italic: bool
    underlined: bool
    struck: bool


@dataclass(frozen=True)
class Run:
    column: int
    width: int
    text: str
    style: Style


def to_svg(screen: pyte.Screen, title: str) -> str:
    width = screen.columns * CELL_WIDTH + 2 * MARGIN
    height = screen.lines * CELL_HEIGHT + BAR + MARGIN
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{escape(title)}">'
        ),
        f'<rect width="100%" height="100%" rx="8" fill="#{BACKGROUND}"/>',
        *(f'<circle cx="{18 + 18 * at}" cy="15" r="5" fill="#4a4a4a"/>' for at in range(3)),
        (
            f'<text x="{width / 2:.0f}" y="19" text-anchor="middle" font-family="sans-serif" font-size="12" '
            f'fill="#909090">{escape(title)}</text>'
        ),
        f'<g font-family="{FONTS}" font-size="14">',
    ]
    for row in range(screen.lines):
        runs = list(_runs([screen.buffer[row][column] for column in range(screen.columns)]))
        top = BAR + row * CELL_HEIGHT
        parts += [_background(run, top) for run in runs if run.style.background != BACKGROUND]
        parts += [_text(run, top) for run in runs if run.text.strip() or run.style.underlined]
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _runs(cells: Sequence[pyte.screens.Char]) -> Iterator[Run]:
    """Neighbours that look the same. A wide character is followed by an empty cell, which belongs to it."""
    start, text, style = 0, "", _style(cells[0])
    for column, cell in enumerate(cells):
        now = _style(cell) if cell.data else style
        if now != style:
            yield Run(start, column - start, text, style)
            start, text, style = column, "", now
        text += cell.data
    yield Run(start, len(cells) - start, text, style)


def _style(cell: pyte.screens.Char) -> Style:
    foreground, background = _colour(cell.fg, FOREGROUND), _colour(cell.bg, BACKGROUND)
    if cell.reverse:
        foreground, background = background, foreground
    return Style(foreground, background, cell.bold, cell.italics, cell.underscore, cell.strikethrough)


def _colour(name: str, default: str) -> str:
    return default if name == "default" else NAMED.get(name, name)


def _background(run: Run, top: float) -> str:
    return (
        f'<rect x="{MARGIN + run.column * CELL_WIDTH:.1f}" y="{top}" width="{run.width * CELL_WIDTH + 0.4:.1f}" '
        f'height="{CELL_HEIGHT + 0.4}" fill="#{run.style.background}"/>'
    )


def _text(run: Run, top: float) -> str:
    style = run.style
    left = len(run.text) - len(run.text.lstrip(" "))
    text = run.text.strip(" ") if not style.underlined else run.text
    column = run.column + (left if not style.underlined else 0)
    cells = run.width - (len(run.text) - len(text))
    more = ' font-weight="bold"' if style.bold else ""
    more += ' font-style="italic"' if style.italic else ""
    lines = [name for name, on in (("underline", style.underlined), ("line-through", style.struck)) if on]
    more += f' text-decoration="{" ".join(lines)}"' if lines else ""
    return (
        f'<text x="{MARGIN + column * CELL_WIDTH:.1f}" y="{top + 13.5}" textLength="{cells * CELL_WIDTH:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" fill="#{style.foreground}"{more}>{escape(text).replace(" ", NO_BREAK)}</text>'
    )
