"""Patterns: regular expressions that are compiled at their first use, and globs, which become regular expressions.

Compiling the expressions of all modules took a tenth of a headless start, and most of them are not used in a run.

A glob has `*`, `?`, `[a-z]`, `{a,b}` within one name and `**` across folders. Pure text; never accesses the file
system. `fnmatch` is not used because its `*` crosses a slash. Globs come from models and from repositories, so matching
must not backtrack. Everything between two stars has a fixed length, and between two `**` a fixed number of names: the
leftmost place where it fits leaves the most for what follows, so no other place has to be tried, and each piece is an
atomic group. The cost is at most the length of the pattern times the length of the path.
"""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, with the methods of a pattern. Do not pass the result to functions of `re`."""
    return cast(re.Pattern[str], _LazyPattern(text, flags))


def lazy_bytes_pattern(text: bytes) -> re.Pattern[bytes]:
    return cast(re.Pattern[bytes], _LazyPattern(text, 0))


_USUAL = ("fullmatch", "match", "search", "sub", "subn", "split", "findall", "finditer", "pattern", "flags")


class _LazyPattern:
    def __init__(self, text: str | bytes, flags: int) -> None:
        self._made_from: tuple[Any, int] = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._made_from)
        # From now on attribute lookup does not reach this method.
        for method in _USUAL:
            self.__dict__[method] = getattr(compiled, method)
        return getattr(compiled, name)


MAX_PATTERN = 4_096
"""Maximum characters, as many as a path can have; a longer pattern matches only itself."""
_MAX_ALTERNATIVES = 256
_MAX_EXPANDED = 16_384
"""Maximum characters of all alternatives together; compiling costs some microseconds for each."""
_BRACES = lazy_pattern(r"(?<!\\)\{([^{}]*)(?<!\\)\}")
_CLASS = lazy_pattern(r"([!^]?)(\]?[^\]/]*)\]")


def glob_regex(pattern: str) -> str:
    """A regular expression (without anchors) for a slash-separated pattern. Never raises: invalid syntax is literal.

    It must be followed by a slash or the end of the path.
    """
    if len(pattern) > MAX_PATTERN:
        return re.escape(pattern)
    alternatives, _complete = _expand(pattern)
    if len(alternatives) == 1:
        return _path_regex(alternatives[0])
    return f"(?:{'|'.join(map(_path_regex, alternatives))})"


def is_within_limits(pattern: str) -> bool:
    """Whether `glob_regex` interprets all wildcards of the pattern, instead of taking some literally to limit the
    cost."""
    return len(pattern) <= MAX_PATTERN and _expand(pattern)[1]


def _expand(pattern: str) -> tuple[list[str], bool]:
    """The pattern for each choice in its braces, innermost first; False: over a limit, so some braces remain."""
    complete = True
    finished: list[str] = []
    waiting = [pattern]
    size = len(pattern)
    while waiting:
        current = waiting.pop()
        found = next((each for each in _BRACES.finditer(current) if "," in each[1]), None)
        choices = [] if found is None else found[1].split(",")
        more = len(choices) * len(current)
        count = len(waiting) + len(finished) + len(choices)
        if found is None or count > _MAX_ALTERNATIVES or size + more > _MAX_EXPANDED:
            complete = complete and found is None
            finished.append(current)
            continue
        size += more - len(current)
        waiting += [current[: found.start()] + choice + current[found.end() :] for choice in choices]
    return finished, complete


_ANY_FOLDERS = "(?:[^/]++/)*"


def _path_regex(pattern: str) -> str:
    # `a/**` is a and everything below; `**/b` is b at any depth, including the top.
    *folders, last = pattern.split("/")
    segments = [""]
    for component in folders:
        if component != "**":
            segments[-1] += f"{_component_regex(component)}/"
        elif segments[-1] or len(segments) == 1:
            segments.append("")
    if last != "**":
        segments[-1] += _component_regex(last)
    elif segments[-1]:
        segments[-1] = segments[-1][:-1] + "(?:/.*)?"
    else:
        segments[-1] = ".*"
    if len(segments) == 1:
        return segments[0]
    first, *middle, final = segments
    return first + "".join(f"(?>{_ANY_FOLDERS}?{segment})" for segment in middle) + _ANY_FOLDERS + final


def escape_glob(text: str) -> str:
    """A pattern that matches exactly this text."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", text)


def has_magic(text: str) -> bool:
    return re.search(r"[*?\[{]", text) is not None


def _component_regex(text: str) -> str:
    pieces = [""]
    """Text between the stars."""
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "\\" and position < len(text):
            pieces[-1] += re.escape(text[position])
            position += 1
        elif char == "[" and (found := _CLASS.match(text, position)):
            pieces[-1] += _class_regex(found[1], found[2])
            position = found.end()
        else:
            pieces[-1] += re.escape(char)
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, final = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + (f"(?>[^/]*{final})" if final else "[^/]*+")


def _class_regex(negation: str, members: str) -> str:
    escaped = re.sub(r"([\\\]\[^&~|])", r"\\\1", members)
    # A range such as [+-9] contains the slash, which no name has.
    regex = f"[^/{escaped}]" if negation else f"(?!/)[{escaped}]"
    try:
        re.compile(regex)
    except re.error:
        return re.escape(f"[{negation}{members}]")
    return regex
