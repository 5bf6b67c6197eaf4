"""Find the files that an instruction file imports: `@path` in its prose. Pure, and linear in the length of the text.

Code spans, fenced code and HTML comments are skipped: there an `@` is part of a quotation.
"""

from __future__ import annotations

from agentcli.core.text.lazy_pattern import lazy_pattern

MOST_IMPORTS = 50
"""Maximum imports per file; more are ignored."""

_FENCE = lazy_pattern(r" {0,3}(?:>\s?|[-*+]\s+)*(`{3,}|~{3,})(.*)")
_IMPORT = lazy_pattern(r"(?:(?<=\s)|(?<![\s\S]))@((?:[^\s\\]|\\ )+)")
_BEGINS_A_PATH = lazy_pattern(r"(?:~/|\.{0,2}/|[\w.-])")
_TICKS = lazy_pattern(r"`+")
_PARAGRAPH_END = lazy_pattern(r"\n[ \t]*\n")
_TRAILING = ".,;:!?)]}'\"*_>"


def imported(text: str) -> list[tuple[str, ...]]:
    """The imports in order, each once: the path as written, and without trailing punctuation."""
    found: dict[tuple[str, ...], None] = {}
    for match in _IMPORT.finditer(_without_spans(_without_comments(_without_fences(text)))):
        path = match.group(1).replace("\\ ", " ")
        if not _BEGINS_A_PATH.match(path):
            continue
        bare = path.rstrip(_TRAILING)
        candidates = tuple(dict.fromkeys(part for part in (path, bare) if part.strip("./~")))
        if candidates:
            found.setdefault(candidates)
        if len(found) == MOST_IMPORTS:
            break
    return list(found)


def is_meant(path: str) -> bool:
    """Whether a missing path was clearly meant as an import; `@alice` and `@types/node` are not."""
    return path.startswith(("./", "../", "~/", "/")) or path.lower().endswith((".md", ".txt", ".mdc"))


def _without_fences(text: str) -> str:
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            ends = match and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip()
            fence = "" if ends else fence
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
            kept.append("")  # the text before the fence is a paragraph of its own
        else:
            kept.append(line)
    return "\n".join(kept)


def _without_comments(text: str) -> str:
    pieces: list[str] = []
    place = 0
    while (begin := text.find("<!--", place)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        pieces.append(text[place:begin])
        place = end + 3
    return "".join((*pieces, text[place:]))


def _without_spans(text: str) -> str:
    """The text without code spans. A run of backticks is closed by the next one of the same length in its paragraph."""
    if "`" not in text:
        return text
    return "\n\n".join(_paragraph_without_spans(part) for part in _PARAGRAPH_END.split(text))


def _paragraph_without_spans(text: str) -> str:
    runs = [match.span() for match in _TICKS.finditer(text)]
    closing: dict[int, int] = {}
    """For each run, the next one of the same length; found from the end."""
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        if length in latest:
            closing[number] = latest[length]
        latest[length] = number
    pieces: list[str] = []
    place = number = 0
    while number < len(runs):
        if number not in closing:
            number += 1
            continue
        pieces.append(text[place : runs[number][0]])
        place = runs[closing[number]][1]
        number = closing[number] + 1
    # A removed span leaves a mark, so that `a`@b is not an import.
    return "`".join((*pieces, text[place:]))
