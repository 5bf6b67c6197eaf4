"""Output of programs in its own colours, translated to those of the theme."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from rich.style import Style

from agentcli.core.text.terminal_colours import ATTRIBUTES, ColourSpan
from agentcli.tui.blocks.wrap import Run
from agentcli.tui.theme.palette import Palette


class Coloured:
    """Styles for a text with colour spans. Without colours, attributes such as bold and reverse are left."""

    def __init__(self, spans: Sequence[ColourSpan], palette: Palette, base: Style) -> None:
        self._spans = spans
        self._starts = [start for start, _end, _look in spans]
        self._base = base
        self._palette = palette

    def runs(self, text: str, start: int, end: int) -> list[Run]:
        """A part of the text as runs."""
        found: list[Run] = []
        place = start
        for first, last, look in self._spans[max(0, bisect_right(self._starts, start) - 1) :]:
            if first >= end:
                break
            if last <= place:
                continue
            first, last = max(first, place), min(last, end)
            found += [(text[place:first], self._base), (text[first:last], _style(look, self._palette, self._base))]
            place = last
        return [run for run in (*found, (text[place:end], self._base)) if run[0]]


def _style(look: str, palette: Palette, base: Style) -> Style:
    attributes, colour = _translated(look)
    if not colour or not palette.colours:
        return base + attributes
    return base + attributes + Style(color=_hue(colour, palette).color)


@lru_cache(maxsize=128)
def _translated(look: str) -> tuple[Style, str]:
    words = look.split()
    attributes = {word: True for word in ATTRIBUTES if word in words}
    return Style(**attributes), next((word for word in words if word not in ATTRIBUTES), "")  # type: ignore[arg-type]


def _hue(name: str, palette: Palette) -> Style:
    hues = {
        "red": palette.error,
        "green": palette.success,
        "yellow": palette.warning,
        "blue": palette.link,
        "magenta": palette.syntax.get("keyword", palette.accent),
        "cyan": palette.code,
        "grey": palette.muted,
    }
    return hues.get(name, palette.text)
