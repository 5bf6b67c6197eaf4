"""File names passed from one program to another: `find … | xargs wc -l` and `find … -exec wc -l {} +`."""

from __future__ import annotations

import os
import re
from itertools import pairwise

from agentcli.shell.parser.listers import plain_search

_SHOWS_NO_CONTENT = frozenset({"ls", "basename", "dirname", "echo", "stat", "md5sum", "sha1sum", "sha256sum"})
"""With any names and flags these write nothing, run nothing and show no file contents."""
_SHOWS_CONTENT = frozenset({"cat", "grep", "head", "tail"})
"""With any names and flags these write nothing and run nothing, but show file contents."""
_READS_LISTS = frozenset({"wc", "du"})
"""Like `_SHOWS_NO_CONTENT`, except for a flag that reads names from a file, which an error message would show."""

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
    # Counts and sizes do not reveal a file that a rule hides.
    if roots is None or (hidden and program not in _READS_LISTS):
        return names
    if not null_separated:
        if any(map(_CUT_BY_XARGS.search, roots)):
            return names
        if not all(_names_stay_whole(os.path.join(folder, root)) for folder in folders for root in roots):  # noqa: PTH118
            return names
    return None if _may_be_given(program, produced_by) else names


def find_exec(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Split `find ROOTS FILTERS -exec COMMAND {} +` into the search and the command; None for anything else."""
    if words[0] != "find" or words.count("-exec") != 1 or words[-1] not in ("+", ";"):
        return None
    at = words.index("-exec")
    command = words[at + 1 : -1]
    if len(command) < 2 or command[-1] != "{}" or any("{}" in word for word in command[:-1]):
        return None
    return words[:at], command[:-1]


def exec_objection(search: tuple[str, ...], command: tuple[str, ...], *, hidden: bool) -> str | None:
    """Reason why `find … -exec` needs approval. Each name is one word beginning with a search root, so never a flag."""
    names = f"the names that find passes to {command[0]} are unknown"
    if plain_search(search, None) is None or (hidden and command[0] not in _SHOWS_NO_CONTENT | _READS_LISTS):
        return names
    return None if command[0] in _SHOWS_NO_CONTENT or _may_be_given(command[0], search) else names


def _may_be_given(program: str, search: tuple[str, ...]) -> bool:
    # A link could show a file outside; -type f excludes links.
    return program in _READS_LISTS or (("-type", "f") in pairwise(search) and program in _SHOWS_CONTENT)


def _names_stay_whole(root: str) -> bool:
    """Whether xargs, which splits at blanks and strips quotes and backslashes, passes on every name below unchanged."""
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
