"""Look up the names that a lister would print, on disk or in the repository, and check that all are harmless.

The lookup may find too many names, because uncertain filters are ignored. A list is accepted only if every name in it
stays one word in the shell and in xargs, cannot be read as an option, and leads to a readable file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agentcli.core.git.run import git_program
from agentcli.shell.git.tracked_files import run_neutral_git
from agentcli.shell.parser.listers import FindCommand, Words, plain_search, read_search
from agentcli.shell.paths import expanded_pattern

if TYPE_CHECKING:
    from agentcli.shell.command_context import CommandContext

_MOST_NAMES = 4_000
_SECONDS = 1.0
_WHOLE = re.compile(r"(?![:=-])(?!.*/-)(?![A-Za-z_]\w*=)[^\s'\"\\*?\[\]\x00-\x20\x7f]+")
"""One word after splitting: no pattern, option, awk assignment or git pathspec magic."""
_MOST_STARS = 4
"""Maximum wildcards: each makes matching a hostile name slower."""
_SIMPLE_PATH = re.compile(r"[\w./*-]+")
_SIMPLE_NAME = re.compile(r"[\w.*-]+")


def are_harmless(words: Words, patterns: frozenset[int], listed_in: str, used_in: str, place: CommandContext) -> bool:
    """Whether a read-only program in one folder may receive every name that a lister prints in another."""
    paths = (listed_in, used_in, *(os.path.join(listed_in, word) for word in words[1:]))  # noqa: PTH118
    if any(place.locate(path) != path for path in paths):
        return False  # The sandbox has its own /tmp, so the command would list other files.
    names = _listed(words, patterns, listed_in, place)
    if names is None or len(names) > _MOST_NAMES or not all(map(_WHOLE.fullmatch, names)):
        return False
    return _may_be_read(names, used_in, place)


def _may_be_read(names: list[str], folder: str, place: CommandContext) -> bool:
    parents = {os.path.dirname(name) for name in names}  # noqa: PTH120
    # Long lists stay fast because folders are resolved once, and files only if they are links.
    if not all(place.may_read(os.path.join(folder, parent)) for parent in parents):  # noqa: PTH118
        return False
    restricted = place.hides if place.has_visible_restricted_files else None
    for name in names:
        path = os.path.join(folder, name)  # noqa: PTH118
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(mode) and not place.may_read(path):
            return False
        # A program that reads folders could show restricted files in them.
        if restricted is not None and (stat.S_ISDIR(mode) or stat.S_ISLNK(mode) or restricted(path)):
            return False
    return True


def _listed(words: Words, patterns: frozenset[int], folder: str, place: CommandContext) -> list[str] | None:
    match words[0]:
        case "find":
            search = read_search(words)
            plain = plain_search(words, None) is not None
            return _below(search.roots, folder, *_filters(search), search.left_out) if plain else None
        case "git":
            return _from_git(words, folder, place)
        case "ls":
            return _from_ls(words, patterns, folder)
        case _:
            # The first operand is the pattern, unless it is a flag's value. Links are not followed.
            roots = tuple(word for word in words[1:] if not word.startswith("-"))
            roots = roots[1:] or (".",) if words[0] == "grep" else (*roots, ".")
            return _below(roots, folder, None, files_only=True)


def _filters(search: FindCommand) -> tuple[str | None, bool]:
    """The pattern that matches the end of every name of a `find`, if it is simple, and whether it lists files only."""
    names = [value for negated, test, value in search.filters if test == "-name" and not negated]
    kinds = [value for _negated, test, value in search.filters if test == "-type"]
    simple = names[:1] if names and _is_simple(_SIMPLE_NAME, names[0]) else []
    return (simple[0] if simple else None), kinds == ["f"]


def _is_simple(known: re.Pattern[str], pattern: str) -> bool:
    return known.fullmatch(pattern) is not None and pattern.count("*") <= _MOST_STARS


def _leaves_out(tests: tuple[tuple[str, str], ...]) -> Callable[[str], bool]:
    """A predicate for folders that a search skips, by their path in find's form. Complex tests are ignored."""
    known = [(kind, _expression(value)) for kind, value in tests if _is_simple(_SIMPLE_PATH, value)]

    def skips(path: str) -> bool:
        return any(each.fullmatch(path if kind == "-path" else os.path.basename(path)) for kind, each in known)  # noqa: PTH119

    return skips


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)


def _below(
    roots: Iterable[str],
    folder: str,
    pattern: str | None,
    files_only: bool,
    without: tuple[tuple[str, str], ...] = (),
) -> list[str] | None:
    shown = None if pattern is None else _expression(pattern)
    skips = _leaves_out(without)
    names: list[str] = []
    seen = 0
    for root in roots:
        if shown is None and not files_only:
            names.append(root)
        waiting = [root]
        while waiting:
            current = waiting.pop()
            try:
                with os.scandir(os.path.join(folder, current)) as entries:  # noqa: PTH118
                    for entry in entries:
                        seen += 1
                        if seen > _MOST_NAMES:
                            return None
                        name = entry.name if current == "." else os.path.join(current, entry.name)  # noqa: PTH118
                        is_folder = entry.is_dir(follow_symlinks=False)
                        if is_folder and not skips(f"./{name}" if root == "." else name):
                            waiting.append(name)
                        skipped = files_only and (is_folder or entry.is_symlink())
                        if (shown is None or shown.fullmatch(entry.name)) and not skipped:
                            names.append(name)
            except NotADirectoryError:
                names.append(current)
            except FileNotFoundError:
                continue
            except OSError:
                return None
    return names


def _from_ls(words: Words, patterns: frozenset[int], folder: str) -> list[str] | None:
    operands: list[str] = []
    for index, word in enumerate(words[1:], 1):
        if index in patterns:
            matches = expanded_pattern(word, folder)
            # The shell passes an unmatched pattern to ls unchanged, which reports an error and prints no name.
            if matches is None:
                return None
            operands += matches
        elif not word.startswith("-"):
            operands.append(word)
    if not operands and patterns:
        return []
    names: list[str] = []
    for operand in operands or ["."]:
        path = os.path.join(folder, operand)  # noqa: PTH118
        names.append(operand)
        if os.path.isdir(path):  # noqa: PTH112
            try:
                names += os.listdir(path)  # noqa: PTH208
            except OSError:
                return None
            names.append(f"{operand}:")
    return names


def _from_git(words: Words, folder: str, place: CommandContext) -> list[str] | None:
    """Names listed by git, without applying the repository's settings or reading the work tree.

    Comparing files with the index can run programs named in the repository's settings, so all names in the index and
    the commits are taken instead.
    """
    git = git_program(place.working_dirs)
    if git is None or any(name in os.environ for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")):
        return None
    limit = words.index("--") if "--" in words else len(words)
    operands = [word for word in words[2:limit] if not word.startswith("-")]
    if words[1] == "ls-files":
        others = any(re.fullmatch(r"-[cmd]*o[cmdo]*|--others", word) for word in words[2:limit])
        kept = [word for word in words[2:limit] if word == "--exclude-standard"]
        flags = ("--cached", "--others", *kept) if others else ("--cached",)
        return run_neutral_git(git, ("ls-files", "-z", *flags, "--", *operands, *words[limit + 1 :]), folder, _SECONDS)
    if len(operands) == 1 and ".." in operands[0]:
        return run_neutral_git(git, ("diff", "-z", "--name-only", "--no-ext-diff", operands[0], "--"), folder, _SECONDS)
    names = run_neutral_git(git, ("ls-files", "-z", "--full-name", "--", ":/"), folder, _SECONDS)
    for operand in operands:
        found = run_neutral_git(git, ("ls-tree", "-r", "-z", "--full-tree", "--name-only", operand), folder, _SECONDS)
        if found is None and not os.path.lexists(os.path.join(folder, operand)):  # noqa: PTH118
            return None
        names = None if names is None else [*names, *(found or ())]
    return names
