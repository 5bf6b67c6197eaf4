"""A unified diff for display. Fast for large files too: equal text at both ends is not compared."""

from __future__ import annotations

import difflib
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
    left, right = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(left), len(right)) > _MAX_COMPARED:
        codes: list[Any] = [("replace", 0, len(left), 0, len(right))]
    else:
        codes = difflib.SequenceMatcher(None, left, right).get_opcodes()
    added = sum(code[4] - code[3] for code in codes if code[0] in ("insert", "replace"))
    removed = sum(code[2] - code[1] for code in codes if code[0] in ("delete", "replace"))
    shifted = [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in codes]
    text = _format(before, after, shifted, start)
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


def _shown(sign: str, lines: list[str]) -> list[str]:
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


def _format(before: list[str], after: list[str], codes: list[Any], start: int) -> str:
    if not codes:
        return ""
    lead, trail = min(_CONTEXT, start), min(_CONTEXT, len(before) - codes[-1][2])
    a, c = codes[0][1], codes[0][3]
    b, d = codes[-1][2], codes[-1][4]
    whole = [("equal", a - lead, a, c - lead, c), *codes, ("equal", b, b + trail, d, d + trail)]
    lines: list[str] = []
    for group in _groups(whole):
        a, b, c, d = group[0][1], group[-1][2], group[0][3], group[-1][4]
        lines.append(f"@@ -{_range(a, b)} +{_range(c, d)} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += _shown(" ", before[a:b])
                continue
            lines += _shown("-", before[a:b])
            lines += _shown("+", after[c:d])
    return "\n".join(lines)


def _groups(codes: list[Any]) -> list[list[Any]]:
    """Group opcodes into hunks: equal text longer than twice the context separates two hunks."""
    groups: list[list[Any]] = [[]]
    for tag, a, b, c, d in codes:
        if tag == "equal" and b - a > 2 * _CONTEXT:
            groups[-1].append((tag, a, a + _CONTEXT, c, c + _CONTEXT))
            groups.append([(tag, b - _CONTEXT, b, d - _CONTEXT, d)])
        elif b > a or d > c:
            groups[-1].append((tag, a, b, c, d))
    return [group for group in groups if any(code[0] != "equal" for code in group)]


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + 1 if count else start},{count}"
