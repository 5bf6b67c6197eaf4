"""Choices of a dialog: how one is painted, and the guard against choosing one by accident."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.style import Style

from agentcli.core.frozen import frozen
from agentcli.tui.blocks.base import Run, wrap
from agentcli.tui.blocks.rows import Runs, join_runs, size
from agentcli.tui.screens.text import runs_of
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
    """Why it cannot be chosen; "" if it can."""


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
        (f"{number + 1} " if choice.numbered else "", palette.faint if choice.refused else palette.muted),
        (f"{choice.mark} " if choice.mark else "", style),
    ]
    lines = wrap(runs, width, first)
    if choice.detail and not compact:
        indent = " " * (sum(cell_len(text) for text, _style in first) + (0 if choice.numbered else 2))
        lines += wrap([(choice.detail, palette.muted)], width, [(indent, Style.null())])
    meta = Style(meta={"choice": number})
    return [runs_of(line.strip.extend_cell_length(width).apply_style(meta)) for line in lines]


def fold_choices(
    choices: Sequence[SheetChoice], current: int, width: int, palette: Palette, *, with_keys: bool, locked: bool
) -> Runs:
    """The choices in one row, each after its letter if `with_keys`: the current one, yes and no, and as many others as
    fit. Clickable like `choice_rows`; the count of the rest has `more` as meta data."""

    def cell(number: int) -> Runs:
        choice = choices[number]
        style = palette.faint if choice.locked else palette.text
        if number == current:
            style = style if choice.locked else palette.accent + palette.strong
        key = f"{choice.key or number + 1} " if with_keys else ""
        label = f"{key}{choice.short or choice.label}"
        return [("❯ ", palette.accent)] * (number == current) + [(label, style + Style(meta={"choice": number}))]

    def row(numbers: Iterable[int]) -> Runs:
        shown = sorted(numbers)
        cells = [cell(number) for number in shown]
        if rest := len(choices) - len(shown):
            cells.append([(f"{'…' if locked else '↑↓'} {rest} more", palette.muted + Style(meta={"more": True}))])
        return [(" ", palette.muted), *join_runs(cells, (" · ", palette.faint))]

    shown = {current}
    by_rank = sorted(range(len(choices)), key=lambda number: (choices[number].key not in ("y", "n"), number))
    for number in by_rank:
        if size(row(shown | {number})) <= width:
            shown.add(number)
    return row(shown)


PAUSE = 0.4
"""Seconds without typing before a key counts as an answer; no user reads and answers faster."""
_MIDST = 1.5
"""Seconds: a user who typed this shortly before the dialog is in mid-sentence and may only be pausing."""


class TypingGuard:
    """Prevents accidental answers: keys typed while a dialog appears belong to the prompt.

    From `begin` on ignores keys until the user has paused; after that every key counts, however fast."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open = True
        self._last = 0.0
        self._held = False
        self._in_text = False
        """Whether the user is typing a text, to which a digit or Enter may belong."""
        self.pause = PAUSE

    def begin(self, typed: float, has_text: bool) -> None:
        """`typed`: time of the last key press before the dialog, on the same clock. `has_text`: whether the prompt
        contains text."""
        self._open = False
        self._last = self._clock()
        if self._last - typed < _MIDST:
            self.pause = 2 * PAUSE
            self._in_text = has_text

    def holds(self) -> bool:
        """Whether a key pressed now must not answer."""
        return not self._is_over()

    def takes(self, character: str | None) -> bool:
        """Whether a key that must not answer belongs to the user's text. A digit or Enter on its own is an answer
        given too early: it must not become a prompt."""
        starts_text = character is not None and not (character.isdecimal() or character.isspace())
        if not (self._in_text or starts_text):
            return False
        self.hold()
        return True

    def hold(self) -> None:
        """Require another pause, because the user is typing again."""
        self._open = False
        self._last = self._clock()
        self._held = self._in_text = True

    @property
    def holding(self) -> bool:
        """Whether a key was ignored and the next one would be too."""
        return self._held and not self._is_over()

    def _is_over(self) -> bool:
        self._open = self._open or self._clock() - self._last >= self.pause
        return self._open
