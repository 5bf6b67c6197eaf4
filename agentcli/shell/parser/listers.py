"""Recognise commands that print file names, one per line, and filters that keep whole lines. Reads no files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.parser.values import LISTED, LISTED_END, MARKED, SEPARATOR

if TYPE_CHECKING:
    from agentcli.shell.parser.strict_parser import SimpleCommand

Words = tuple[str, ...]

_PATTERN = "\x1e"
"""Prefix of a pattern in a listing, which the shell expands to file names."""
_LS_FILES = lazy_pattern(r"-[cmdo]+|--(?:cached|modified|deleted|others|exclude-standard)|--")
_NAME_ONLY = lazy_pattern(r"--(?:name-only|cached|staged|no-renames|merge-base)|--diff-filter=[A-Za-z]+|--")
_LS = lazy_pattern(r"-[1rtS]+|--")
_GREP_NAMES = lazy_pattern(r"-[rliEFwPn]*l[rliEFwPn]*|-[rliEFwP]+|--(?:include|exclude|exclude-dir)=.*")
_RG_NAMES = lazy_pattern(
    r"-[liFwSu.]+|--(?:files|files-with-matches|hidden|no-ignore|ignore-case|fixed-strings)|-[tg].*"
)
_GREP_FILTER = lazy_pattern(r"-[vEiFwxP]+")
_COUNT = lazy_pattern(r"-n?\d{1,6}|-n\+\d{1,6}")
_FIND_FILTERS = frozenset(
    "-type -name -iname -path -ipath -maxdepth -mindepth -size -mtime -mmin -newer -regex -iregex".split()  # noqa: SIM905
)
_FIND_NAMES = frozenset({"-name", "-iname", "-path", "-ipath"})

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
        case ("find", *_):
            return plain_search(words, None) is not None
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


@frozen
class FindCommand:
    """A `find` command: roots, pruned folders (`-path X -prune -o`), filters that must all match, the rest."""

    roots: tuple[str, ...]
    pruned: tuple[tuple[str, str], ...]
    """Pairs of `-path` or `-name` and a pattern."""
    filters: tuple[tuple[bool, str, str], ...]
    """Triples: whether negated, the test, its value."""
    rest: tuple[str, ...]

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Tests for folders whose contents are not printed."""
        negated = (value for is_not, test, value in self.filters if is_not and test == "-path" and value[-2:] == "/*")
        return (*self.pruned, *(("-path", value[:-2]) for value in negated))


def read_search(words: tuple[str, ...]) -> FindCommand:
    arguments, position = words[1:], 0
    while position < len(arguments) and arguments[position][:1] not in ("-", "!", "(", ",", ")"):
        position += 1
    roots = arguments[:position] or (".",)
    pruned: list[tuple[str, str]] = []
    filters: list[tuple[bool, str, str]] = []
    while (clause := _prune_clause(arguments[position:])) is not None:
        position += clause[0]
        pruned += clause[1]
    while position + 1 < len(arguments):
        # Never `-not -type f`: that would include links.
        negated = arguments[position] in ("-not", "!") and arguments[position + 1] in _FIND_NAMES
        if not negated and arguments[position] not in _FIND_FILTERS:
            break
        position += negated
        filters += ((negated, arguments[position], value) for value in arguments[position + 1 : position + 2])
        position += 2
    return FindCommand(roots, tuple(pruned), tuple(filters), arguments[position:])


def plain_search(words: tuple[str, ...], printing: str | None) -> tuple[str, ...] | None:
    """The roots of a `find` that prints only names; `printing`: the final action, if not `-print`."""
    if words[0] != "find":
        return None
    search = read_search(words)
    if printing:
        return search.roots if search.rest == (printing,) else None
    # Without an explicit action it would also print the pruned folders.
    ends = search.rest == ("-print",) or (search.rest == () and not search.pruned)
    return search.roots if ends else None


def _prune_clause(words: tuple[str, ...]) -> tuple[int, list[tuple[str, str]]] | None:
    """Length and tests of a leading `-path X -prune -o` or `( -name X -o -name Y ) -prune -o`."""
    position = 2 if words[:2] == ("-type", "d") else 0
    tests: list[tuple[str, str]] = []
    grouped = words[position : position + 1] == ("(",)
    position += grouped
    while words[position : position + 1] in (("-path",), ("-name",)) and position + 1 < len(words):
        tests.append((words[position], words[position + 1]))
        position += 2
        if not grouped or words[position : position + 1] != ("-o",):
            break
        position += 1
    if grouped and words[position : position + 1] != (")",):
        return None
    position += grouped
    if words[position : position + 2] == ("-type", "d"):
        position += 2
    return (position + 2, tests) if tests and words[position : position + 2] == ("-prune", "-o") else None


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


def printed_names(parts: Sequence[SimpleCommand]) -> str | None:
    """The value of a substitution that consists of a lister and optional filters; None for anything else."""
    first, *filters = parts
    for part in parts:
        odd = part.others or part.assignments or any(each.kind != "harmless" for each in part.redirections)
        if odd or any(map(MARKED.search, part.words)):
            return None
    if not is_lister(first.words) or not all(keeps_lines(part.words) and not part.globs for part in filters):
        return None
    if first.globs and first.words[0] != "ls" and first.words[:2] != ("git", "ls-files"):
        return None
    words = (f"{_PATTERN}{word}" if index in first.globs else word for index, word in enumerate(first.words))
    return f"{LISTED}{SEPARATOR.join(words)}{LISTED_END}"


def read_listing(text: str) -> tuple[Words, frozenset[int]]:
    """The words of a lister from the text between the markers, and the indexes of patterns."""
    words = text.split(SEPARATOR)
    patterns = frozenset(index for index, word in enumerate(words) if word.startswith(_PATTERN))
    return tuple(word.removeprefix(_PATTERN) for word in words), patterns


def _flags_are(known: re.Pattern[str], words: Sequence[str]) -> bool:
    return all(known.fullmatch(word) for word in words if word.startswith("-"))
