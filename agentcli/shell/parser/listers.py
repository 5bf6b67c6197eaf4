"""Recognise commands that print file names, one per line, and filters that keep whole lines. Reads no files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentcli.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from agentcli.shell.parser.strict_parser import SimpleCommand

Words = tuple[str, ...]

_LS_FILES = lazy_pattern(r"-[cmdo]+|--(?:cached|modified|deleted|others|exclude-standard)|--")
_NAME_ONLY = lazy_pattern(r"--(?:name-only|cached|staged|no-renames|merge-base)|--diff-filter=[A-Za-z]+|--")
_LS = lazy_pattern(r"-[1rtS]+|--")
_GREP_NAMES = lazy_pattern(r"-[rliEFwPn]*l[rliEFwPn]*|-[rliEFwP]+|--(?:include|exclude|exclude-dir)=.*")
_RG_NAMES = lazy_pattern(
    r"-[liFwSu.]+|--(?:files|files-with-matches|hidden|no-ignore|ignore-case|fixed-strings)|-[tg].*"
)
_GREP_FILTER = lazy_pattern(r"-[vEiFwxP]+")
_COUNT = lazy_pattern(r"-n?\d{1,6}|-n\+\d{1,6}")
_FILTERS: Mapping[str, re.Pattern[str]] = {
    "head": lazy_pattern(r"-n|-c|-\d+|-[nc]?\d+|\d+|-q"),
    "tail": lazy_pattern(r"-n|-c|-\d+|-[nc]?[-+]?\d+|[-+]?\d+|-q"),
    "wc": lazy_pattern(r"-[lwcmL]+"),
    "sort": lazy_pattern(r"-[nrufhVb]+"),
    "uniq": lazy_pattern(r"-[cdiu]+"),
    "cat": lazy_pattern(r"-[nbsA]+"),
}
"""Programs that read only standard input if all their arguments match this."""


def is_lister(words: Words) -> bool:
    """Whether a command prints only file names: tracked files, changed files or folder contents."""
    match words:
        case ("find", *rest):
            return "-printf" not in rest and "-ls" not in rest
        case ("git", "ls-files", *rest):
            return _flags_are(_LS_FILES, rest)
        case ("git", "diff", *rest):
            return "--name-only" in rest and _flags_are(_NAME_ONLY, rest)
        case ("ls", *rest):
            return _flags_are(_LS, rest)
        case ("grep", *rest):
            flags = "".join(word for word in rest if re.match("-[a-zA-Z]", word))
            return "r" in flags and "l" in flags and _flags_are(_GREP_NAMES, rest)
        case ("rg", *rest):
            names = (
                "--files" in rest or "--files-with-matches" in rest or any(re.match("-[a-zA-Z.]*l", w) for w in rest)
            )
            return names and _flags_are(_RG_NAMES, rest)
        case _:
            return False


def keeps_lines(words: Words) -> bool:
    """Whether every output line of a filter is an input line."""
    program, arguments = words[0], words[1:]
    match program:
        case "grep" | "egrep":
            flags = [word for word in arguments if word.startswith("-")]
            return len(arguments) - len(flags) == 1 and all(map(_GREP_FILTER.fullmatch, flags))
        case "head" | "tail":
            counted = len(arguments) == 2 and arguments[0] == "-n" and re.fullmatch(r"\+?\d{1,6}", arguments[1])
            return (
                not arguments or bool(counted) or (len(arguments) == 1 and _COUNT.fullmatch(arguments[0]) is not None)
            )
        case "sort":
            return all(re.fullmatch(r"-[urnfV]+", word) for word in arguments)
        case "uniq" | "cat":
            return not arguments
        case _:
            return False


def only_filters(words: Words) -> bool:
    """Whether a program has only options as arguments, so that it reads standard input and no file."""
    allowed = _FILTERS.get(words[0])
    return allowed is not None and all(allowed.fullmatch(word) for word in words[1:])


def prints_names(parts: Sequence[SimpleCommand]) -> bool:
    """Whether a pipe consists of a lister and optional filters."""
    first, *filters = parts
    odd = any(each.kind != "harmless" for part in parts for each in part.redirections)
    return not odd and is_lister(first.words) and all(keeps_lines(part.words) for part in filters)


def _flags_are(known: re.Pattern[str], words: Sequence[str]) -> bool:
    return all(known.fullmatch(word) for word in words if word.startswith("-"))
