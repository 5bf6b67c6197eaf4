"""File names that one program hands to another: `find … | xargs wc -l` and `find … -exec wc -l {} +`."""

from __future__ import annotations

import os
import re
from itertools import pairwise

from agentcli.core.frozen import frozen

_SHOWS_NO_CONTENT = frozenset({"ls", "basename", "dirname", "echo", "stat", "md5sum", "sha1sum", "sha256sum"})
"""Whatever names and flags they are given, they write nothing, run nothing and show nothing of what is in a file."""
_SHOWS_CONTENT = frozenset({"cat", "grep", "head", "tail"})
"""The same, but what is in a file comes out."""
_READS_LISTS = frozenset({"wc", "du"})
"""The same, but for a flag that names a file with names in it, of which an error message would show something."""

_FIND_FILTERS = frozenset(
    "-type -name -iname -path -ipath -maxdepth -mindepth -size -mtime -mmin -newer -regex -iregex".split()  # noqa: SIM905
)
_FIND_NAMES = frozenset({"-name", "-iname", "-path", "-ipath"})
_MOST_ENTRIES = 4_000
_CUT_BY_XARGS = re.compile(r"[\s'\"\\]")


def xargs_objection(
    words: tuple[str, ...],
    produced_by: tuple[str, ...] | None,
    *,
    null_separated: bool,
    delimited: bool,
    hidden: bool,
    folders: tuple[str, ...],
) -> str | None:
    """Reason why xargs needs approval: piped names may contain blanks, lead anywhere or look like flags."""
    program, names = words[0], f"the names that xargs passes to {words[0]} are unknown"
    if produced_by is None or produced_by[0] not in ("find", "rg", "git", "ls", "fd"):
        return names
    if program in _SHOWS_NO_CONTENT:
        return None
    # `{}/../..` leads out of the folder.
    if delimited or any("{}" in word and word != "{}" for word in words):
        return names
    printing = "-print0" if null_separated else None
    roots = plain_search(produced_by, printing)
    # Counts and sizes show nothing of a file that a rule hides.
    if roots is None or (hidden and program not in _READS_LISTS):
        return names
    if not null_separated:
        if any(map(_CUT_BY_XARGS.search, roots)):
            return names
        if not all(_names_stay_whole(os.path.join(folder, root)) for folder in folders for root in roots):  # noqa: PTH118
            return names
    return None if _may_be_given(program, produced_by) else names


def find_exec(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """`find ROOTS FILTERS -exec COMMAND {} +` as the search and the command; None if it is anything else."""
    if words[0] != "find" or words.count("-exec") != 1 or words[-1] not in ("+", ";"):
        return None
    at = words.index("-exec")
    command = words[at + 1 : -1]
    if len(command) < 2 or command[-1] != "{}" or any("{}" in word for word in command[:-1]):
        return None
    return words[:at], command[:-1]


def exec_objection(search: tuple[str, ...], command: tuple[str, ...], *, hidden: bool) -> str | None:
    """Each name is one word and begins with a root of the search, so that none is taken for a flag."""
    names = f"the names that find passes to {command[0]} are unknown"
    if plain_search(search, None) is None or (hidden and command[0] not in _SHOWS_NO_CONTENT | _READS_LISTS):
        return names
    return None if command[0] in _SHOWS_NO_CONTENT or _may_be_given(command[0], search) else names


def _may_be_given(program: str, search: tuple[str, ...]) -> bool:
    # A link would show what is outside; -type f leaves links out.
    return program in _READS_LISTS or (("-type", "f") in pairwise(search) and program in _SHOWS_CONTENT)


@frozen
class Search:
    """A `find`: roots, folders to leave out (`-path X -prune -o`), filters that all have to hold, the rest."""

    roots: tuple[str, ...]
    pruned: tuple[tuple[str, str], ...]
    """`-path` or `-name`, and a pattern."""
    filters: tuple[tuple[bool, str, str], ...]
    """Whether it is negated, the test and its value."""
    rest: tuple[str, ...]

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Tests for folders of which nothing inside is printed."""
        negated = (value for is_not, test, value in self.filters if is_not and test == "-path" and value[-2:] == "/*")
        return (*self.pruned, *(("-path", value[:-2]) for value in negated))


def read_search(words: tuple[str, ...]) -> Search:
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
        # Never `-not -type f`: then links would be among the names.
        negated = arguments[position] in ("-not", "!") and arguments[position + 1] in _FIND_NAMES
        if not negated and arguments[position] not in _FIND_FILTERS:
            break
        position += negated
        filters += ((negated, arguments[position], value) for value in arguments[position + 1 : position + 2])
        position += 2
    return Search(roots, tuple(pruned), tuple(filters), arguments[position:])


def plain_search(words: tuple[str, ...], printing: str | None) -> tuple[str, ...] | None:
    """The roots of a `find` that prints nothing but names; `printing` is the action at its end, if not `-print`."""
    if words[0] != "find":
        return None
    search = read_search(words)
    if printing:
        return search.roots if search.rest == (printing,) else None
    # Without a printing of its own it would print the folders that it leaves out.
    ends = search.rest == ("-print",) or (search.rest == () and not search.pruned)
    return search.roots if ends else None


def _prune_clause(words: tuple[str, ...]) -> tuple[int, list[tuple[str, str]]] | None:
    """The length of `-path X -prune -o` or `( -name X -o -name Y ) -prune -o` at the beginning, and its tests."""
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


def _names_stay_whole(root: str) -> bool:
    """Whether xargs, which cuts at blanks and takes quotes and backslashes away, leaves every name below as it is."""
    waiting, seen = [root], 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_ENTRIES or _CUT_BY_XARGS.search(entry.name):
                        return False
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except NotADirectoryError:
            continue
        except OSError:
            return False
    return True
