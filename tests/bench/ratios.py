"""What a run of the benches says compared with the baseline that is kept: ratios, because machines differ.

A ratio is what agentcli takes divided by what a yardstick takes that does as little as possible of the same, measured
in turn with it in the same run: a bare Python, a bare Textual app, the least client. Only pure functions here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

TOLERANCE = 0.30
"""How much larger than its baseline a ratio may be."""
FORMAT = 1

Verdict = Literal["ok", "slower", "faster", "new"]


@dataclass(frozen=True)
class Sampled:
    """One line: what was measured of agentcli and of its yardstick, a number for each run."""

    name: str
    yardstick_name: str
    subject: tuple[float, ...]
    yardstick: tuple[float, ...]
    unit: str = "ms"

    @property
    def best(self) -> float:
        """Whatever disturbs a run makes it longer, so the best one is the nearest to the truth."""
        return min(self.subject)

    @property
    def best_yardstick(self) -> float:
        return min(self.yardstick)

    @property
    def ratio(self) -> float:
        return self.best / self.best_yardstick

    def merged(self, other: Sampled) -> Sampled:
        return Sampled(
            self.name,
            self.yardstick_name,
            (*self.subject, *other.subject),
            (*self.yardstick, *other.yardstick),
            self.unit,
        )


@dataclass(frozen=True)
class Compared:
    sampled: Sampled
    baseline: float | None
    """The ratio that is kept; None for a line that is not in the baseline."""
    tolerance: float = TOLERANCE

    @property
    def change(self) -> float:
        """0.1: a tenth slower than the baseline."""
        return self.sampled.ratio / self.baseline - 1 if self.baseline else 0.0

    @property
    def verdict(self) -> Verdict:
        if self.baseline is None:
            return "new"
        if self.change > self.tolerance:
            return "slower"
        return "faster" if self.change < -self.tolerance else "ok"


def compare(lines: Iterable[Sampled], baseline: Mapping[str, float], tolerance: float = TOLERANCE) -> list[Compared]:
    return [Compared(line, baseline.get(line.name), tolerance) for line in lines]


def regressions(compared: Iterable[Compared]) -> list[str]:
    """A sentence for each line that is slower than it may be."""
    return [
        f"{one.sampled.name}: {_ratio(one.sampled.ratio)} × {one.sampled.yardstick_name}, "
        f"{one.change:.0%} more than the {_ratio(one.baseline or 0)} of the baseline"
        for one in compared
        if one.verdict == "slower"
    ]


def unmeasured(compared: Iterable[Compared], baseline: Mapping[str, float]) -> list[str]:
    """Lines of the baseline that no longer exist: a bench that was lost must not pass for a good one."""
    return sorted(set(baseline) - {one.sampled.name for one in compared})


# ------------------------------------------------------------------------------------------------------------ the file


def encode_baseline(lines: Iterable[Sampled], machine: Mapping[str, Any]) -> str:
    rows = {
        line.name: {
            "ratio": float(f"{line.ratio:.4g}"),
            "to": line.yardstick_name,
            "agentcli": round(line.best, 3),
            "yardstick": round(line.best_yardstick, 3),
            "unit": line.unit,
        }
        for line in lines
    }
    return f"{json.dumps({'format': FORMAT, 'machine': dict(machine), 'lines': rows}, indent=2)}\n"


def decode_baseline(text: str) -> dict[str, float]:
    """The ratios by line. Raises ValueError for anything that `encode_baseline` does not write."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"the baseline is not of format {FORMAT}; write it anew with --save-baseline")
    return {name: float(row["ratio"]) for name, row in data["lines"].items()}


# ----------------------------------------------------------------------------------------------------------- the table

_HEADER = ("", "agentcli", "yardstick", "", "ratio", "baseline", "change", "")


def table(compared: Sequence[Compared]) -> str:
    rows = [_HEADER, *(_row(one) for one in compared)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    left = (0, 3, 7)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(one: Compared) -> tuple[str, ...]:
    line = one.sampled
    known = one.baseline is not None
    return (
        line.name,
        f"{_number(line.best)} {line.unit}",
        f"{_number(line.best_yardstick)} {line.unit}",
        line.yardstick_name,
        _ratio(line.ratio),
        _ratio(one.baseline or 0) if known else "",
        f"{one.change:+.0%}" if known else "",
        {"ok": "ok", "slower": "SLOWER", "faster": "faster", "new": "not in the baseline"}[one.verdict],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"
