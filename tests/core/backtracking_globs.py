"""A direct translation of globs to regular expressions that backtrack: what the quick one is compared with."""

from __future__ import annotations

import re

_BRACES = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)(?<!\\)\}")
_MOST_ALTERNATIVES = 256


def glob_regex(pattern: str) -> str:
    """A regular expression (without anchors) for a slash-separated pattern. Never raises: odd input is literal."""
    alternatives = _expanded(pattern)
    if len(alternatives) == 1:
        return _path_regex(alternatives[0])
    return f"(?:{'|'.join(map(_path_regex, alternatives))})"


def _expanded(pattern: str) -> list[str]:
    """The pattern once for each choice in its braces, the innermost first; beyond a limit braces stay literal."""
    finished: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        found = _BRACES.search(current)
        if found is None or len(waiting) + len(finished) > _MOST_ALTERNATIVES:
            finished.append(current)
            continue
        waiting += [current[: found.start()] + choice + current[found.end() :] for choice in found.group(1).split(",")]
    return finished


def _path_regex(pattern: str) -> str:
    pieces: list[str] = []
    components = pattern.split("/")
    last = len(components) - 1
    for index, component in enumerate(components):
        if component == "**":
            # `a/**` is all below a and a itself; `**/b` is b at any depth, also none.
            if index == last:
                if pieces and pieces[-1] == "/":
                    pieces[-1] = "(?:/.*)?"
                else:
                    pieces.append(".*")
            else:
                pieces.append("(?:[^/]+/)*")
            continue
        pieces.append(_component_regex(component))
        if index != last:
            pieces.append("/")
    return "".join(pieces)


def _component_regex(text: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "*":
            if not out or out[-1] != "[^/]*":
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "\\" and position < len(text):
            out.append(re.escape(text[position]))
            position += 1
        elif char == "[" and (found := re.compile(r"([!^]?)(\]?[^\]/]*)\]").match(text, position)):
            out.append(_class_regex(found.group(1), found.group(2)))
            position = found.end()
        else:
            out.append(re.escape(char))
    return "".join(out)


def _class_regex(negation: str, members: str) -> str:
    escaped = re.sub(r"([\\\]\[^&~|])", r"\\\1", members)
    regex = f"[^/{escaped}]" if negation else f"(?!/)[{escaped}]"
    try:
        re.compile(regex)
    except re.error:
        return re.escape(f"[{negation}{members}]")
    return regex
