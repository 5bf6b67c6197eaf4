"""Complete Markdown that is still streaming, so that it renders as it will look when finished.

Pure text to text, for display only: open emphasis is closed, a line whose kind is still undecided is hidden, and a
table appears row by row. At most one line is hidden, and only until its kind is known.
"""

from __future__ import annotations

import re

_UNDECIDED = re.compile(r"[-=*_+#~`:|]*|\d{1,9}[.)]?|`{3,}[^`]*|~{3,}.*|(?:[-*+]|\d{1,9}[.)])[ \t]*\[?[ xX]?\]?")
"""Beginning of a list item, heading, rule, fence or quote without any content."""
_TABLE_ROW = re.compile(r"[ \t>]*\|")
_FIRST_ROW = re.compile(r"( {0,3})\|.*\|\s*")
_DELIMITER = re.compile(r"[ \t>]*[-:|][-:| ]*")
_OPENED_FENCE = re.compile(r"^[ \t>]*(?:[-*+] +|\d{1,9}[.)] +)*(?:`{3,}|~{3,})", re.MULTILINE)
_HALF_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\Z")
_TICKS = re.compile(r"`+")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_TRAILING = re.compile(r"[*_~]+\Z|_+[-.:]\Z")
"""Marks that may still grow; after an underscore, a full stop may go on to `_init_.py`."""
_MARK = re.compile(r"(?<!\\)(\*\*\*|\*\*|\*|~~)")
"""Marks that are closed. An underscore may begin a name, so its emphasis appears only when it is complete."""


def presentable(text: str) -> str:
    start = text.rfind("\n") + 1
    line = text[start:]
    if len(_OPENED_FENCE.findall(text, 0, start)) % 2:
        # Inside code: do not show a possible closing fence as code.
        return text[:start] if line and not line.strip(" `~>") else text
    if not line:
        return text + _delimiter_below(text)
    if _UNDECIDED.fullmatch(line.lstrip(" \t>").rstrip()) or _TABLE_ROW.match(line) or _is_half_delimiter(text, start):
        text = text[:start]
        return text + _delimiter_below(text)
    return text[:start] + _closed(line)


def _is_half_delimiter(text: str, start: int) -> bool:
    above = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start]
    return "|" in above and _DELIMITER.fullmatch(text[start:]) is not None


def _delimiter_below(text: str) -> str:
    """Return the delimiter line that turns a lone first row into a table; "" if there is none."""
    above, _break, row = text.removesuffix("\n").rpartition("\n")
    found = _FIRST_ROW.fullmatch(row)
    if found is None or above.rpartition("\n")[2].strip():
        return ""
    return found[1] + "|---" * (row.replace("\\|", "").count("|") - 1) + "|\n"


def _closed(line: str) -> str:
    line = _HALF_LINK.sub(r"\1", line)
    code, opened = "", -1
    for ticks in _TICKS.finditer(line):
        if not code:
            code, opened = ticks.group(), ticks.end()
        elif ticks.group() == code:
            code, opened = "", -1
    if code and opened == len(line):
        line, code = line[: -len(code)], ""
    outside = _CODE.sub(lambda found: "x" * len(found.group()), line if not code else line[: opened - len(code)])
    if code:
        return line + code + _closers(outside)
    stripped = _TRAILING.sub("", line)
    if stripped.endswith("\\"):
        return line
    closers = _closers(_TRAILING.sub("", outside))
    # A mark after a blank would close nothing.
    return stripped.rstrip(" ") + closers if closers or stripped != line else line


def _closers(text: str) -> str:
    opened: list[str] = []
    for found in _MARK.finditer(text):
        mark = found.group()
        before = text[found.start() - 1 : found.start()]
        after = text[found.end() : found.end() + 1]
        if opened and opened[-1] == mark and before.strip():
            opened.pop()
        elif after.strip():
            opened.append(mark)
    return "".join(reversed(opened))
