"""The rows of a panel that stand around its body: the question, what is not in sight, and the keys. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from agentcli.core.plural import plural
from agentcli.tui.dialogs.subject import one_line
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


def more_row(
    above: int, below: int, width: int, palette: Palette, *, locked: bool = False, insists: bool = False
) -> Strip:
    """The rule below a body of which not all is in sight: nobody shall say yes to what they did not know was there.
    `locked`: it has to be read to its end first; `insists`: the user tried to answer before."""
    lines = f" {plural(below, 'line')}"
    if locked:
        return _locked_row(below, lines, width, palette.warning + Style(reverse=insists), palette)
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


def _locked_row(below: int, lines: str, width: int, style: Style, palette: Palette) -> Strip:
    if not below:
        text = " Enlarge the window to allow "  # there is no room for a single line
    else:
        longest = f" ↓ {below} more{lines}: scroll to the end to allow "
        texts = (longest, f" ↓ {below} more: scroll to allow ", f" ↓ {below} more: scroll ", f" ↓ {below} ")
        text = next((text for text in texts if cell_len(text) <= width - 4), texts[-1])
    rest = "─" * max(0, width - 3 - cell_len(text))
    return Strip([Segment("───", palette.faint), Segment(text, style), Segment(rest, palette.faint)]).crop(0, width)


def keys_row(hints: str, width: int, style: Style) -> Strip:
    """As many of the hints as there is room for, from the first on."""
    while cell_len(hints) > width - 2 * MARGIN and " · " in hints:
        hints = hints.rpartition(" · ")[0]
    return Strip([Segment(" " * MARGIN), Segment(hints, style)]).crop(0, width)
