"""One option of a dialog, and how it is painted."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.tui.blocks.wrap import Run, wrap
from agentcli.tui.sheets.runs import Runs, runs_of
from agentcli.tui.theme.palette import Palette


@frozen
class SheetChoice:
    name: str
    label: str
    key: str = ""
    """A letter that chooses it, besides its number."""
    short: str = ""
    """The label where there is little room; the same if empty."""
    detail: str = ""
    turn: str = ""
    """What Tab changes about it, as it stands."""
    turn_more: str = ""
    mark: str = ""
    """Stands before the label: `[x]`."""
    locked: bool = False
    """It cannot be chosen before all of the body has been on the screen."""
    problem: str = ""
    """What is wrong with its value; shown behind the label."""
    numbered: bool = True
    """Whether its number is shown."""
    refused: str = ""
    """Why it cannot be chosen; empty if it can. It is shown without its number, and the others keep theirs."""


def choice_rows(
    choice: SheetChoice, number: int, width: int, palette: Palette, *, current: bool, compact: bool
) -> list[Runs]:
    """Its rows, all of them sensitive to a click (`choice` in the style's meta data is `number`)."""
    style = (
        palette.faint
        if choice.refused or choice.locked
        else palette.accent + palette.strong
        if current
        else palette.text
    )
    label = (choice.short or choice.label) if compact else choice.label
    if choice.refused:
        label = f"{label}: {choice.refused}"
    runs: list[Run] = [(label, style)]
    if choice.problem:
        runs += [("  ", style), (f"✗ {choice.problem}", palette.error)]
    for text in (choice.turn_more, choice.turn):
        if text:
            # No-break blanks: what is turned stays in one piece.
            turn = f"‹ {text} ›".replace(" ", "\u00a0")
            runs += [("  ", style), (turn, palette.accent if current else palette.muted)]
    first: list[Run] = [
        (" ❯ " if current else "   ", palette.accent),
        ("" if not choice.numbered else "  " if choice.refused else f"{number + 1} ", palette.muted),
        (f"{choice.mark} " if choice.mark else "", style),
    ]
    lines = wrap(runs, width, first)
    if choice.detail and not compact:
        indent = " " * (sum(cell_len(text) for text, _style in first) + (0 if choice.numbered else 2))
        lines += wrap([(choice.detail, palette.muted)], width, [(indent, Style.null())])
    meta = Style(meta={"choice": number})
    return [runs_of(line.strip.extend_cell_length(width).apply_style(meta)) for line in lines]
