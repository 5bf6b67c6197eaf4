"""The rows of a panel that stand around its body: the question, what is not in sight, and the keys. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.tui.screens.subject import one_line
from agentcli.tui.theme.palette import Palette

MARGIN = 1


def head_row(question: str, asides: Sequence[str], width: int, palette: Palette) -> Strip:
    """A rule with the question in it, and at its end the first of the asides that has room."""
    rule, title = palette.accent, palette.accent + palette.strong
    question = f" {one_line(question)} "
    room = width - 4 - cell_len(question)
    aside = next((text for text in map(one_line, asides) if text and cell_len(text) + 2 <= room), "")
    aside = f" {aside} " if aside else ""
    rest = "─" * max(0, width - 3 - cell_len(question) - cell_len(aside))
    segments = [Segment("───", rule), Segment(question, title), Segment(rest, rule)]
    return Strip([*segments, Segment(aside, palette.muted)]).crop(0, width)


def more_row(above: int, below: int, width: int, palette: Palette) -> Strip:
    """The rule below a body of which not all is in sight: nobody shall say yes to what they did not know was there."""
    lines = f" line{'s' if below != 1 else ''}"
    # Where there is little room the keys go first, then what can be guessed.
    for noun, keys in ((lines, " · PgUp PgDn"), (lines, ""), ("", "")):
        facts = [f"↑ {above} above"] if above else []
        facts += [f"↓ {below} more{noun}"] if below else []
        text = f" {' · '.join(facts)}{keys} "
        if cell_len(text) <= width - 4:
            break
    rest = "─" * max(0, width - 3 - cell_len(text))
    style = palette.warning if below else palette.muted
    return Strip([Segment("───", palette.faint), Segment(text, style), Segment(rest, palette.faint)]).crop(0, width)


def keys_row(hints: str, width: int, style: Style) -> Strip:
    """As many of the hints as there is room for, from the first on."""
    while cell_len(hints) > width - 2 * MARGIN and " · " in hints:
        hints = hints.rpartition(" · ")[0]
    return Strip([Segment(" " * MARGIN), Segment(hints, style)]).crop(0, width)
