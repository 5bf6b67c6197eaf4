"""A unified diff for display. Fast for large files too: equal text at both ends is not compared."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from agentcli.core.messages import Json, clean_text
from agentcli.core.text.plaintext import terminal_text

_CONTEXT = 3
_MAX_COMPARED = 2_000
"""Lines on one side above which the middle is shown as replaced: comparing is quadratic."""
_MAX_LENGTH = 60_000
_UNENDED = "\x00"


def diff_display(path: str, old: str, new: str) -> Json:
    """`{"kind": "diff", "path", "diff", "added", "removed"}` for `Output.display`; `truncated` if it is cut."""
    before, after = _lines(old), _lines(new)
    start = equal_lines_at_start(before, after)
    end = equal_lines_at_start(before[start:][::-1], after[start:][::-1])
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    left, right = before[first : len(before) - last], after[first : len(after) - last]
    groups: Iterable[list[Any]] = difflib.SequenceMatcher(None, left, right).get_grouped_opcodes(_CONTEXT)
    if max(len(left), len(right)) > _MAX_COMPARED:
        lead, (a, b) = start - first, (len(part) - (end - last) for part in (left, right))
        rest = ("equal", a, len(left), b, len(right))
        groups = [[("equal", 0, lead, 0, lead), ("replace", lead, a, lead, b), rest]]
    lines: list[str] = []
    for group in groups:
        a, b, c, d = group[0][1], group[-1][2], group[0][3], group[-1][4]
        lines.append(f"@@ -{_range(first + a, first + b)} +{_range(first + c, first + d)} @@")
        for tag, a, b, c, d in group:
            lines += _sign(" ", left[a:b]) if tag == "equal" else [*_sign("-", left[a:b]), *_sign("+", right[c:d])]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    text = "\n".join(lines)
    display = {"kind": "diff", "path": path, "diff": "", "added": added, "removed": removed}
    if len(text) > _MAX_LENGTH:
        text = text[:_MAX_LENGTH].rpartition("\n")[0] + "\n… the rest of the diff is not shown"
        display["truncated"] = True
    # Users must not approve code that reads differently than it runs.
    return {**display, "diff": terminal_text(clean_text(text))}


def _lines(text: str) -> list[str]:
    """Lines for comparison: with carriage returns, and the last one marked if it has no line ending."""
    lines = text.split("\n" if "\n" in text else "\r")
    if not lines[-1]:
        return lines[:-1]
    return [*lines[:-1], lines[-1] + _UNENDED]


def _sign(sign: str, lines: list[str]) -> list[str]:
    shown = [sign + line.removesuffix("\r") for line in lines]
    if lines and lines[-1].endswith(_UNENDED):
        shown[-1:] = [shown[-1].removesuffix(_UNENDED), "\\ No newline at end of file"]
    return shown


def equal_lines_at_start(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + 1 if count else start},{count}"
