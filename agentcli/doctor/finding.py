"""The result of a check and its layout as text. All text is sanitised for the terminal here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted

Status = Literal["ok", "warn", "fail"]

NAME_CELLS = 13
_STATUS_CELLS = 5
_BESIDE = 60
"""Minimum columns to show the text beside its name instead of below it."""
_LONGEST = 800
_SGR = {"ok": "32", "warn": "33", "fail": "1;31"}


@frozen
class Finding:
    status: Status
    name: str
    text: str
    advice: str = ""
    """Suggested fix."""

    def record(self) -> Json:
        return {"status": self.status, "name": self.name, "text": self.text, "advice": self.advice}


def finding_lines(finding: Finding, width: int | None, coloured: bool = False) -> Iterator[str]:
    """Lines of a finding. `width` None: not wrapped."""
    status = f"{finding.status:<{_STATUS_CELLS}}"
    if coloured:
        status = f"\x1b[{_SGR[finding.status]}m{status}\x1b[0m"
    beside = width is None or width >= _BESIDE
    indent = _STATUS_CELLS + 1 + (NAME_CELLS + 1 if beside else 0)
    rows = _wrapped(finding.text, width, indent)
    if finding.advice:
        advice = _wrapped(finding.advice, width, indent + 2)
        rows += [f"→ {advice[0]}", *advice[1:]]
    if beside:
        yield f"{status} {finding.name:<{NAME_CELLS}} {rows[0] if rows else ''}".rstrip()
        rows = rows[1:]
    else:
        yield f"{status} {finding.name}"
    first_advice = next((number for number, row in enumerate(rows) if row.startswith("→ ")), len(rows))
    for number, row in enumerate(rows):
        yield f"{'':{indent + (2 if number > first_advice else 0)}}{row}"


def summary(findings: Iterable[Finding]) -> str:
    counts = {"warn": 0, "fail": 0}
    for finding in findings:
        if finding.status in counts:
            counts[finding.status] += 1
    if not any(counts.values()):
        return "No problems found."
    warnings = counted(counts["warn"], "warning")
    failures = counted(counts["fail"], "failure")
    said = [text for text, count in ((failures, counts["fail"]), (warnings, counts["warn"])) if count]
    return f"{' and '.join(said)}. Each → shows a fix."


def _wrapped(text: str, width: int | None, indent: int) -> list[str]:
    line = plain_line(text, _LONGEST)
    if width is None:
        return [line] if line else []
    return textwrap.wrap(line, max(20, width - indent), break_on_hyphens=False)
