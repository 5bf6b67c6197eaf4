"""The rule below a body of which not all is in sight. Pure."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from agentcli.core.plural import plural
from agentcli.tui.sheets.runs import Runs
from agentcli.tui.theme.palette import Palette


def more_row(
    above: int, below: int, width: int, palette: Palette, *, locked: bool = False, insists: bool = False
) -> Runs:
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
    return _rule(text, width, palette.warning if below else palette.muted, palette.faint)


def _locked_row(below: int, lines: str, width: int, style: Style, palette: Palette) -> Runs:
    if not below:
        text = " Enlarge the window to allow "  # there is no room for a single line
    else:
        longest = f" ↓ {below} more{lines}: scroll to the end to allow "
        texts = (longest, f" ↓ {below} more: scroll to allow ", f" ↓ {below} more: scroll ", f" ↓ {below} ")
        text = next((text for text in texts if cell_len(text) <= width - 4), texts[-1])
    return _rule(text, width, style, palette.faint)


def _rule(text: str, width: int, style: Style, line: Style) -> Runs:
    return [("───", line), (text, style), ("─" * max(0, width - 3 - cell_len(text)), line)]
