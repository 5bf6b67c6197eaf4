"""Fill arguments into the text of a command or skill.

`$ARGUMENTS` stands for all of them, `$1` to `$9` for single ones, split as a shell splits words. If a text uses
neither, they are appended. Everything is replaced in one pass, so an argument is never expanded again: a `!` command or
a `$1` in it stays text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern

_SHELL = lazy_pattern(r"(?<![\w`!\\])!`([^`\n]+)`")
_ARGUMENT = lazy_pattern(r"(\\?)\$(ARGUMENTS\b|[1-9](?!\d))")


@frozen
class ShellPart:
    """A command between `` !` `` and `` ` ``, whose output takes its place."""

    command: str
    line: int
    """Line in the body, counted from 1."""


Part = str | ShellPart


def split_arguments(text: str) -> list[str]:
    """The words of an argument line. An unclosed quote is an ordinary character."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def uses_arguments(body: str) -> bool:
    return any(not found.group(1) for found in _ARGUMENT.finditer(body))


def fill_arguments(body: str, arguments: str) -> str:
    """Fill arguments into a body without `!` commands."""
    filled = _fill(body, arguments, split_arguments(arguments))
    return filled if uses_arguments(body) else _appended(filled, arguments)


def expand(body: str, arguments: str) -> tuple[Part, ...]:
    """Split a body into texts and commands to run, both with arguments filled in."""
    parts: list[Part] = []
    words = split_arguments(arguments)
    end, line = 0, 1
    for found in _SHELL.finditer(body):
        parts.append(_fill(body[end : found.start()], arguments, words))
        line += body.count("\n", end, found.start())
        parts.append(ShellPart(_fill(found.group(1), arguments, words).strip(), line))
        end = found.end()
    parts.append(_fill(body[end:], arguments, words))
    if not uses_arguments(body):
        parts[-1] = _appended(str(parts[-1]), arguments)
    return tuple(part for part in parts if part)


def _appended(text: str, arguments: str) -> str:
    return f"{text.rstrip()}\n\n{arguments}" if arguments else text


def _fill(text: str, arguments: str, words: Sequence[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found.group(1):
            return found.group(0)[1:]
        if found.group(2) == "ARGUMENTS":
            return arguments
        place = int(found.group(2)) - 1
        return words[place] if place < len(words) else ""

    return _ARGUMENT.sub(value, text)
