"""Unified diffs read into hunks, whoever wrote them."""

from __future__ import annotations

import re
from typing import Literal

from agentcli.core.frozen import frozen

_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_OF_A_FILE = (
    *("diff --git ", "index ", "--- ", "+++ ", "new file mode ", "deleted file mode ", "old mode ", "new mode "),
    *("similarity index ", "dissimilarity index ", "rename from ", "rename to ", "copy from ", "copy to "),
)

Sign = Literal[" ", "+", "-", ""]
_SIGNS: dict[str, Sign] = {" ": " ", "+": "+", "-": "-"}


@frozen
class DiffLine:
    sign: Sign
    """"" for what is no line of either file, such as a note."""
    text: str
    old: int | None = None
    new: int | None = None


@frozen
class Hunk:
    old_start: int
    new_start: int
    lines: list[DiffLine]
    heading: str = ""
    """What the header says about the place, e.g. the function."""
    path: str = ""
    """Of the new file (the old one where it is gone), if the diff names it."""


class _Counter:
    """Where in both files the next line is, and how many the header still promises; None: it promised nothing."""

    __slots__ = ("new", "new_left", "old", "old_left")

    def __init__(self, old: int = 0, new: int = 0, old_left: int | None = 0, new_left: int = 0) -> None:
        self.old, self.new = old, new
        self.old_left, self.new_left = old_left, new_left

    @property
    def open(self) -> bool:
        return self.old_left is None or self.old_left > 0 or self.new_left > 0

    def take(self, sign: Sign) -> tuple[int | None, int | None]:
        old = new = None
        if sign in (" ", "-"):
            old, self.old = self.old or None, self.old + bool(self.old)
            self.old_left = self.old_left - 1 if self.old_left else self.old_left
        if sign in (" ", "+"):
            new, self.new = self.new or None, self.new + bool(self.new)
            self.new_left = max(0, self.new_left - 1)
        return old, new


def parse(text: str) -> list[Hunk]:
    """The hunks of a diff; text that is none becomes one hunk without numbers. Never raises."""
    hunks: list[Hunk] = []
    path, counter = "", _Counter()
    for line in text.rstrip("\n").split("\n") if text.strip("\n") else []:
        # Inside a hunk only these two mean that it was cut short; all else is code, whatever it looks like.
        if not counter.open or line.startswith(("@@ ", "diff --git ")):
            if header := _header(line, path):
                hunk, counter = header
                hunks.append(hunk)
                continue
            if line.startswith(_OF_A_FILE):
                path, counter = _path(line, path), _Counter()
                continue
        if not hunks:
            hunks.append(Hunk(0, 0, [], path=path))
            counter = _Counter(old_left=None)
        hunks[-1].lines.append(_line(line, counter))
    return hunks


def _header(line: str, path: str) -> tuple[Hunk, _Counter] | None:
    found = _HEADER.match(line)
    if found is None:
        return None
    old, old_count, new, new_count, heading = found.groups()
    counter = _Counter(
        max(1, int(old)), max(1, int(new)), int(old_count) if old_count else 1, int(new_count) if new_count else 1
    )
    return Hunk(int(old), int(new), [], heading=heading.strip(), path=path), counter


def _line(line: str, counter: _Counter) -> DiffLine:
    sign = _SIGNS.get(line[:1])
    if sign:
        return DiffLine(sign, line[1:], *counter.take(sign))
    if not line and counter.open:
        return DiffLine(" ", "", *counter.take(" "))  # a blank at the end of a line is easily lost on the way
    return DiffLine("", line.removeprefix("\\ "))


def _path(line: str, path: str) -> str:
    """The file that a header names, as people write it."""
    for start in ("+++ ", "--- ", "rename to "):
        if not line.startswith(start):
            continue
        name = line[len(start) :].split("\t")[0].strip().strip('"')
        if name == "/dev/null":
            return path
        return name[2:] if name[:2] in ("a/", "b/") else name
    return "" if line.startswith("diff --git ") else path
