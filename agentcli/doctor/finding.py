"""What checks get and what they find: the context of a check, a finding, and its layout as text.

All text is sanitised for the terminal here.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.config.paths import Paths
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line

Status = Literal["ok", "warn", "fail"]

NAME_CELLS = 13
_STATUS_CELLS = 5
_MIN_COLUMNS_WIDTH = 60
"""Minimum columns to show the text beside its name instead of below it."""
_MAX_CHARS = 800
_SGR = {"ok": "32", "warn": "33", "fail": "1;31"}


@frozen
class OutputScreen:
    """The terminal or stream that shows the findings."""

    is_terminal: bool
    columns: int
    rows: int
    encoding: str

    @classmethod
    def here(cls) -> OutputScreen:
        # The app replaces `sys.stdout` by its own stream.
        stream = sys.__stdout__ or sys.stdout
        try:
            is_terminal = os.isatty(1)
        except OSError:
            is_terminal = False
        size = shutil.get_terminal_size()
        return cls(is_terminal, size.columns, size.lines, stream.encoding or "")


class CheckContext:
    """What every check gets."""

    def __init__(self, options: Options, environ: Mapping[str, str], screen: OutputScreen) -> None:
        self.options = options
        self.environ = environ
        self.screen = screen
        self.paths = Paths.from_environ(environ)

    @cached_property
    def environment(self) -> Environment:
        """Settings and folders of a session here. Raises `UsageError` for wrong flags or a missing folder."""
        return Environment(self.options)


@frozen
class Finding:
    status: Status
    name: str
    text: str
    advice: str = ""
    """Suggested fix."""

    def record(self) -> Json:
        return {"status": self.status, "name": self.name, "text": self.text, "advice": self.advice}


def format_finding(finding: Finding, width: int | None, coloured: bool = False) -> Iterator[str]:
    """Lines of a finding. `width` None: not wrapped."""
    status = f"{finding.status:<{_STATUS_CELLS}}"
    if coloured:
        status = f"\x1b[{_SGR[finding.status]}m{status}\x1b[0m"
    has_columns = width is None or width >= _MIN_COLUMNS_WIDTH
    indent = _STATUS_CELLS + 1 + (NAME_CELLS + 1 if has_columns else 0)
    rows = _wrap(finding.text, width, indent)
    if finding.advice:
        advice = _wrap(finding.advice, width, indent + 2)
        rows += [f"→ {advice[0]}", *advice[1:]]
    if has_columns:
        yield f"{status} {finding.name:<{NAME_CELLS}} {rows[0] if rows else ''}".rstrip()
        rows = rows[1:]
    else:
        yield f"{status} {finding.name}"
    first_advice = next((number for number, row in enumerate(rows) if row.startswith("→ ")), len(rows))
    for number, row in enumerate(rows):
        yield f"{'':{indent + (2 if number > first_advice else 0)}}{row}"


def summary(findings: Iterable[Finding]) -> str:
    statuses = [finding.status for finding in findings]
    kinds = (("fail", "failure"), ("warn", "warning"))
    said = [counted(statuses.count(status), noun) for status, noun in kinds if status in statuses]
    return f"{' and '.join(said)}. Each → shows a fix." if said else "No problems found."


def _wrap(text: str, width: int | None, indent: int) -> list[str]:
    line = plain_line(text, _MAX_CHARS)
    if width is None:
        return [line] if line else []
    return textwrap.wrap(line, max(20, width - indent), break_on_hyphens=False)
