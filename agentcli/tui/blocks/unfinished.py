"""The end of Markdown that is still being written, made such that it looks like what it will become.

Pure text to text, for showing only: emphasis that has begun is closed, a line that could still become anything is not
shown yet, and a table comes row by row. What is hidden here is at most one line, and only until it is decided.
"""

from __future__ import annotations

import re

_UNDECIDED = re.compile(r"[-=*_+#~`:|]*|\d{1,9}[.)]?|`{3,}[^`]*|~{3,}.*|(?:[-*+]|\d{1,9}[.)])[ \t]*\[?[ xX]?\]?")
"""The beginning of a list item, heading, rule, fence or quote without anything in it."""
_TABLE_ROW = re.compile(r"[ \t>]*\|")
_FIRST_ROW = re.compile(r"( {0,3})\|.*\|\s*")
_DELIMITER = re.compile(r"[ \t>]*[-:|][-:| ]*")
_FENCE = re.compile(r"^[ \t>]*(?:[-*+] +|\d{1,9}[.)] +)*(?:`{3,}|~{3,})", re.MULTILINE)
_HALF_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\Z")
_TICKS = re.compile(r"`+")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_MARK = re.compile(r"(?<!\\)(\*\*\*|\*\*|\*|~~|__|_)")


def presentable(text: str) -> str:
    start = text.rfind("\n") + 1
    line = text[start:]
    if len(_FENCE.findall(text, 0, start)) % 2:
        # Inside of code; what may become the fence's end is not shown as code.
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
    """The line that makes a table out of a first row that has no other below it yet."""
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
    stripped = line.rstrip("*_~")
    if stripped.endswith("\\"):
        return line
    return stripped.rstrip(" ") + _closers(outside.rstrip("*_~")) if stripped != line else line + _closers(outside)


def _closers(text: str) -> str:
    opened: list[str] = []
    for found in _MARK.finditer(text):
        mark = found.group()
        before = text[found.start() - 1 : found.start()]
        after = text[found.end() : found.end() + 1]
        if opened and opened[-1] == mark and before.strip():
            opened.pop()
        elif after.strip() and (mark[0] != "_" or not (before.isalnum() or before == "_")):
            opened.append(mark)
    return "".join(reversed(opened))
