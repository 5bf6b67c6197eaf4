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
    """Letter that selects it, besides its number."""
    short: str = ""
    """Label for small screens; "": the same label."""
    detail: str = ""
    turn: str = ""
    """Current value of the option that Tab changes, e.g. where a rule is saved."""
    turn_more: str = ""
    mark: str = ""
    """Text before the label, e.g. `[x]`."""
    locked: bool = False
    """Cannot be chosen before the whole body has been on the screen."""
    problem: str = ""
    """Error in its value, shown after the label."""
    numbered: bool = True
    """Whether its number is shown."""
    refused: str = ""
    """Why it cannot be chosen; "" if it can. Shown without its number; the other choices keep theirs."""


def choice_rows(
    choice: SheetChoice, number: int, width: int, palette: Palette, *, current: bool, compact: bool
) -> list[Runs]:
    """Rows of a choice, all clickable (the style's meta data has `choice` = `number`)."""
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
            # No-break spaces keep the option in one piece.
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
