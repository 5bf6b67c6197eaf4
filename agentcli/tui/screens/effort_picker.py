"""Choosing how much effort the model makes: what it supports, what is in force, and what a change costs."""

from __future__ import annotations

from agentcli.providers.catalog import EFFORTS, ModelInfo
from agentcli.tui.screens.model_picker import IN_FORCE, NOTHING_CACHED
from agentcli.tui.screens.picker import Picker
from agentcli.tui.screens.rows import Row
from agentcli.tui.screens.runs import Runs, roughly, safe, wrapped
from agentcli.tui.theme.palette import Palette

_MEANS = {
    "low": "short answers, quick and cheap",
    "medium": "a balance, for everyday work",
    "high": "thorough, for most hard work",
    "xhigh": "more thinking and more tool calls, for long tasks",
    "max": "all it can do, whatever it takes",
}


class EffortPicker(Picker[str]):
    """Returns a level, or "auto" for the model's own default. `current` is a level, or "auto"; `context_tokens` are
    those that a change sends anew, 0 if nothing is cached."""

    def __init__(
        self,
        info: ModelInfo,
        current: str = "auto",
        context_tokens: int = 0,
        rebill_usd: float | None = None,
        palette: Palette | None = None,
    ) -> None:
        self._current = current or "auto"
        self._context_tokens = context_tokens
        self._rebill_usd = rebill_usd
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
            return wrapped([("In force now.", self.palette.muted)], width, 2)
        return wrapped([(self._cost(), self.palette.muted)], width, 2)

    def _cost(self) -> str:
        if not self._context_tokens:
            return NOTHING_CACHED
        price = "; the price is not known" if self._rebill_usd is None else f", {roughly(self._rebill_usd)}"
        return (
            "A change leaves the prompt cache behind: the next request bills "
            f"{self._context_tokens:,} tokens anew{price}."
        )
