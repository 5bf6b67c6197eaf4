"""Choosing how much effort the model makes: what it supports, what is in force, and what a change costs."""

from __future__ import annotations

from collections.abc import Callable

from agentcli.agent.context.report import ChangePrice
from agentcli.providers.catalog import EFFORTS, ModelInfo
from agentcli.tui.pickers.model import IN_FORCE, NO_CHANGE, said_of_change
from agentcli.tui.sheets.picker import Picker
from agentcli.tui.sheets.rows import Row
from agentcli.tui.sheets.runs import Runs, safe, wrapped
from agentcli.tui.theme.palette import Palette

_MEANS = {
    "low": "short answers, quick and cheap",
    "medium": "a balance, for everyday work",
    "high": "thorough, for most hard work",
    "xhigh": "more thinking and more tool calls, for long tasks",
    "max": "all it can do, whatever it takes",
}


class EffortPicker(Picker[str]):
    """Returns a level, or "auto" for the model's own default. `current` is a level, or "auto"; `price_of_change` says
    what going on with another one would bill anew."""

    def __init__(
        self,
        info: ModelInfo,
        current: str = "auto",
        price_of_change: Callable[[str], ChangePrice] = lambda _level: NO_CHANGE,
        palette: Palette | None = None,
    ) -> None:
        self._current = current or "auto"
        self._price_of_change = price_of_change
        super().__init__(f"Effort of {safe(info.id, 60)}", self._rows(info), palette, start=self._current)

    def _rows(self, info: ModelInfo) -> list[Row[str]]:
        default = f"the model's own default: {info.default_effort}" if info.default_effort else "nothing is sent"
        rows = [Row("auto", "auto", default, self._mark("auto"))]
        for level in EFFORTS:
            takes = f"takes {', '.join(info.efforts)} only" if info.efforts else "has no effort levels"
            why = "" if level in info.efforts else f"{safe(info.id, 60)} {takes}"
            rows.append(Row(level, level, _MEANS[level], self._mark(level), disabled=why))
        return rows

    def _mark(self, level: str) -> str:
        return IN_FORCE if level == self._current else ""

    def about(self, row: Row[str] | None, width: int) -> list[Runs]:
        if row is None:
            return []
        if row.value == self._current:
            return wrapped([("Active now.", self.palette.muted)], width, 2)
        return wrapped([(said_of_change(self._price_of_change(row.value)), self.palette.muted)], width, 2)
