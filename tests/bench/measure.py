"""Numbers and how they are shown: distributions, budgets, and a ratio to a baseline of the same run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Statistic = Literal["median", "p95", "max"]
_HEADER = ("", "n", "min", "median", "p95", "max", "budget", "", "ratio")


@dataclass(frozen=True)
class Measure:
    name: str
    values: tuple[float, ...]
    unit: str = "ms"
    budget: float | None = None
    judged_by: Statistic = "median"
    """What of the distribution the budget is for."""
    baseline: str | None = None
    """The name of another measure in the same report; the ratio is of the two medians."""

    @property
    def median(self) -> float:
        return quantile(self.values, 0.5)

    @property
    def judged(self) -> float:
        return quantile(self.values, {"median": 0.5, "p95": 0.95, "max": 1.0}[self.judged_by])

    @property
    def within_budget(self) -> bool:
        return self.budget is None or self.judged <= self.budget


@dataclass(frozen=True)
class Report:
    title: str
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        medians = {measure.name: measure.median for measure in self.measures}
        rows = [_HEADER, *(_row(measure, medians) for measure in self.measures)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
        lines = [self.title, *(_line(row, widths) for row in rows), *(f"  {note}" for note in self.notes)]
        return "\n".join(lines)


def quantile(values: Sequence[float], share: float) -> float:
    """By nearest rank, so that every number shown is one that was measured; NaN for nothing."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def _row(measure: Measure, medians: dict[str, float]) -> tuple[str, ...]:
    values = measure.values
    ratio = ""
    if measure.baseline is not None and medians.get(measure.baseline):
        ratio = f"{measure.median / medians[measure.baseline]:.2f} × {measure.baseline}"
    budget, verdict = "", ""
    if measure.budget is not None:
        budget = f"{measure.budget:g} ({measure.judged_by})"
        verdict = "ok" if measure.within_budget else "OVER"
    shown = (min(values, default=math.nan), measure.median, quantile(values, 0.95), max(values, default=math.nan))
    return (f"{measure.name}, {measure.unit}", str(len(values)), *map(_number, shown), budget, verdict, ratio)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (
        cell.ljust(width) if column in (0, 8) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return ("  " + first + "  " + "  ".join(rest)).rstrip()
