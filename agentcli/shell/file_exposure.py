"""Restricted files that a read-only command could show without naming them, through folder searches or git.

A rule such as `Read(.env)` must also apply to `grep -r` and `git log -p`, but must not make `git status` or a search of
another folder need approval. So the folders and the repository's index and history are checked; if that takes too long,
the command needs approval. Files hidden by the sandbox do not count, except in git, which has its own copies.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable
from pathlib import Path

from agentcli.core.files.bounded_read import Reason, Unread, read_bounded
from agentcli.core.files.links import is_below
from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.commands.read_only_table import PROGRAMS
from agentcli.shell.parser.words import MARKED
from agentcli.shell.paths import expanded_pattern
from agentcli.shell.restricted_files import RestrictedFiles, TrackedFiles

Words = tuple[str, ...]


@frozen
class Restriction:
    """The rules that restrict reading, for one decision."""

    rule_for: Callable[[str], str | None]
    """The text of the rule that restricts a path; None if none does."""
    specs: tuple[str, ...]
    """The patterns in parentheses of these rules."""

    def hides(self, path: str) -> bool:
        return self.rule_for(path) is not None


@frozen
class FileExposure:
    visible: Restriction | None
    """Restricted files that commands could open on disk, except those the sandbox hides. None: no such rule."""
    stored: Restriction
    """Restricted files that git may hold copies of."""
    files: RestrictedFiles
    tracked: TrackedFiles
    working_dirs: tuple[str, ...]
    scope: tuple[str, ...]
    """Base folders of relative rules."""
    search_path: str | None = None
    resolve: Callable[[str], str] = os.path.realpath

    def objection(self, words: Words, globs: frozenset[int], folder: str) -> str | None:
        """Reason why a read-only command may show restricted contents that it does not name; None if it cannot."""
        if words[0] == "git":
            return self._git(words[1:], folder)
        search = _search(words)
        if search is None or self.visible is None:
            return None
        for root in search.roots(words, globs, folder):
            found = self._first_below(root, search)
            if found is not None:
                return found
        return None

    def below(self, folder: str) -> str | None:
        """Like `objection`, for a command that may read every file below a folder, such as `find … -exec cat {} +`."""
        return self._first_below(folder, None)

    def _first_below(self, root: str, search: _Search | None) -> str | None:
        visible = self.visible
        if visible is None:
            return None
        real = self.resolve(root)
        rule = visible.rule_for(root)
        if rule is not None:
            return f"it could read {root}, matched by {rule}"
        if not os.path.isdir(real):  # noqa: PTH112
            return None
        found = self.files.below(real, visible.specs, visible.hides, self.scope)
        for path in found.paths:
            if search is None or search.shows(str(path), real):
                name = os.path.relpath(path, real)
                return f"it could read {name}, matched by {visible.rule_for(str(path))}"
        return None if found.complete else f"{root} has too many files to check for those that rules restrict"

    def _git(self, arguments: Words, folder: str) -> str | None:
        arguments = _without_global_flags(arguments)
        if not _git_shows_contents(arguments):
            return None
        if arguments[0] == "grep" and any(word in ("--untracked", "--no-index") for word in arguments):
            found = self.below(folder)
            if found is not None:
                return found
        if any(word.startswith(("--submodule", "--recurse-submodules")) for word in arguments):
            return "it could show restricted files of submodules"
        objects = _named_objects(arguments)
        if objects is not None:
            return self._objects(objects, folder)
        paths = self.tracked.matching(folder, self.stored.specs, self.stored.hides, self.working_dirs, self.search_path)
        if paths is None:
            return "git took too long to list files that rules restrict"
        limits = _limits(arguments, folder)
        for path in paths:
            if limits is None or is_below(path, limits):
                return f"it could show {os.path.basename(path)}, matched by {self.stored.rule_for(path)}"  # noqa: PTH119
        return None

    def _objects(self, names: list[str], folder: str) -> str | None:
        """Reason for `REV:path` arguments. The path is relative to the repository root, unless it begins with a dot."""
        bases = [folder, *(str(parent) for parent in Path(folder).parents)]
        for name in names:
            for base in bases:
                path = os.path.normpath(os.path.join(base, name))  # noqa: PTH118
                rule = self.stored.rule_for(path) if is_below(path, self.working_dirs) or base == folder else None
                if rule is not None:
                    return f"it could show {name}, matched by {rule}"
        return None


# ----------------------------------------------------------------------------------------------- searches of folders

_VALUES = {"rg": "efgtTABCmjMrEd", "grep": "efmABCdD"}
"""Short flags that take a value."""
_LONG_VALUES = lazy_pattern(
    r"--(?:regexp|file|i?glob|type|type-not|after-context|before-context|context|max-count|include|exclude|exclude-dir)"
)
"""Long flags that take the next word as their value, in each program that has them."""
_UNHIDES = lazy_pattern(r"-[A-Za-z0-9]*[.u]|--hidden|--unrestricted|-[gtT]|--i?glob|--type|--(?:no-)?ignore|--pre")
"""Flags that make ripgrep search hidden files, directly or because a glob or type matches them."""
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_MAX_IGNORE_BYTES = 65_536


@frozen
class _Search:
    program: str
    arguments: Words

    def roots(self, words: Words, globs: frozenset[int], folder: str) -> list[str]:
        """The folders and files that are searched; possibly too many."""
        positions, certain = self._positions(words)
        names: list[str] = [] if certain else [folder]
        for index in positions:
            found = expanded_pattern(words[index], folder) if index in globs else [words[index]]
            names += [folder] if found is None else found
        return [os.path.join(folder, name) for name in names] or [folder]  # noqa: PTH118

    def _positions(self, words: Words) -> tuple[list[int], bool]:
        """Indexes of the words that name search roots, and whether they are certain. No index: the current folder is
        searched."""
        name = "rg" if self.program == "rg" else "grep"
        known = PROGRAMS[name].long
        positions: list[int] = []
        has_pattern, certain, options, index = False, True, True, 1
        while index < len(words):
            word = words[index]
            if options and word == "--":
                options = False
            elif options and word.startswith("--"):
                flag, equals, _value = word.partition("=")
                has_pattern = has_pattern or flag in ("--regexp", "--file")
                if not equals and _LONG_VALUES.fullmatch(flag):
                    index += 1
                elif not equals and (flag not in known or f"{flag}=" in known):
                    certain = False
            elif options and word.startswith("-") and word != "-":
                at = next((at for at, letter in enumerate(word) if at and letter in _VALUES[name]), None)
                if at is not None:
                    has_pattern = has_pattern or word[at] in "ef"
                    index += at == len(word) - 1
            else:
                positions.append(index)
            index += 1
        return (positions if has_pattern else positions[1:]), certain

    def shows(self, path: str, root: str) -> bool:
        """Whether a restricted file or folder below a root would be searched. True when in doubt."""
        is_folder = os.path.isdir(path)  # noqa: PTH112
        name = os.path.basename(path)  # noqa: PTH119
        if self.program != "rg":
            includes = [word.partition("=")[2] for word in self.arguments if word.startswith("--include=")]
            contradicted = any(word.startswith("--exclude") or word == "--include" for word in self.arguments)
            if includes and not contradicted and not is_folder:
                return any(fnmatch.fnmatchcase(name, pattern) or "[" in pattern for pattern in includes)
            return True
        hidden = any(part.startswith(".") for part in os.path.relpath(path, root).split("/"))
        if not hidden or any(map(_UNHIDES.match, self.arguments)) or os.environ.get("RIPGREP_CONFIG_PATH"):
            return True
        return _may_be_unhidden(path)


def _search(words: Words) -> _Search | None:
    """The content search that a command runs; None if it is not one."""
    program, arguments = words[0], words[1:]
    if program == "rg":
        names_only = any(_is_flag(name, arguments) for name in ("--files", "--type-list"))
        return None if names_only or arguments in (("--version",), ("--help",)) else _Search(program, arguments)
    if program in ("grep", "egrep", "fgrep") and any(
        re.match(r"-[A-Za-z]*r|--recursive|--directories|-[A-Za-z]*d", word) for word in arguments
    ):
        return _Search(program, arguments)
    return None


def _is_flag(name: str, arguments: Words) -> bool:
    """Whether a flag is certainly given: not the value of the preceding flag, and not after `--`."""
    if name not in arguments:
        return False
    position = arguments.index(name)
    return "--" not in arguments[:position] and (position == 0 or not arguments[position - 1].startswith("-"))


def _may_be_unhidden(path: str) -> bool:
    """Whether an ignore file above a path has a `!` line, which makes ripgrep search hidden files too."""
    for folder in Path(path).parents:
        for name in _IGNORE_FILES:
            text = _text(folder / name)
            if text is None or any(line.lstrip().startswith(b"!") for line in text.splitlines()):
                return True
    return False


def _text(path: Path) -> bytes | None:
    """Contents of an ignore file: empty if there is none, None if it is too long or not a regular file."""
    data = read_bounded(path, _MAX_IGNORE_BYTES)
    if isinstance(data, Unread):
        return b"" if data.reason is Reason.MISSING and not os.path.lexists(path) else None
    return data


# --------------------------------------------------------------------------------------------------------------- git

_NO_CONTENTS = lazy_pattern(
    r"branch|tag|remote|rev-parse|ls-files|ls-tree|describe|worktree|merge-base|rev-list|name-rev|for-each-ref|show-ref"
    r"|show-branch|cherry|version|config|count-objects|check-ignore|shortlog|--version|clean|apply|symbolic-ref|check-attr"
    # It shows a named file, which the rules check.
    r"|blame"
)
_QUIET = lazy_pattern(
    r"--(?:oneline|graph|all|branches|tags|remotes|decorate|no-decorate|abbrev-commit|no-abbrev-commit|merges|no-merges"
    r"|first-parent|reverse|topo-order|date-order|author-date-order|no-color|cached|staged|relative-date|left-right|parents"
    r"|stat|shortstat|numstat|summary|name-only|name-status|dirstat|no-patch|find-renames|no-renames|exit-code|quiet"
    r"|follow|walk-reflogs|cherry-pick|cherry-mark|ancestry-path|full-history|simplify-by-decoration|no-ext-diff"
    r"|(?:format|pretty|date|since|until|after|before|author|committer|grep|max-count|skip|color|decorate|stat|abbrev"
    r"|stat-width|diff-filter|dirstat|branches|tags|remotes|find-renames|min-parents|max-parents)=.*)"
    r"|-\d+|-n\d*|-[isqzgFEPM]|--"
)
"""Flags with which git log, diff and show print file names at most, no file contents."""
_NAMES_ONLY = lazy_pattern(r"--(?:stat|shortstat|numstat|summary|name-only|name-status|dirstat|no-patch)(?:=.*)?|-s|-q")


_MAYBE_A_FILE = lazy_pattern(r"^[^-].*:|^:|\b[0-9a-f]{4,40}\b")
_NO_VALUE = lazy_pattern(r"-[pu]|--patch|" + _QUIET.pattern)


def _without_global_flags(arguments: Words) -> Words:
    while arguments and arguments[0] in ("--no-pager", "-P", "--no-optional-locks"):
        arguments = arguments[1:]
    return arguments


def _git_shows_contents(arguments: Words) -> bool:
    """Whether git may print file contents; errs towards yes. The read-only check has already accepted the flags."""
    command, flags = arguments[0] if arguments else "", [word for word in arguments[1:] if word.startswith("-")]
    if _NO_CONTENTS.fullmatch(command):
        return False
    if command == "status":
        return any(re.match(r"-[a-z]*v|--verbose", flag) for flag in flags)
    quiet = all(map(_QUIET.fullmatch, flags))
    if command in ("log", "reflog", "rev-list", "whatchanged") or arguments[:2] == ("stash", "list"):
        return not quiet
    if command == "show" and any(_MAYBE_A_FILE.search(word) or MARKED.search(word) for word in arguments[1:]):
        # A single blob is printed whatever the flags say.
        return True
    if command in ("diff", "show", "diff-tree") or arguments[:2] == ("stash", "show"):
        return not (quiet and any(map(_NAMES_ONLY.fullmatch, flags)))
    return True


def _named_objects(arguments: Words) -> list[str] | None:
    """The paths, if all arguments are `REV:path`; otherwise None."""
    if arguments[0] not in ("show", "cat-file"):
        return None
    named = [re.fullmatch(r"[\w./^~-]*:([^:/][^:]*)", word) for word in arguments[1:] if not word.startswith("-")]
    return [found[1] for found in named if found] if named and all(named) else None


def _limits(arguments: Words, folder: str) -> list[str] | None:
    """The files and folders after `--` that limit the output; None if there is no such limit."""
    if "--" not in arguments or "--follow" in arguments:
        return None
    position = arguments.index("--")
    names, before = arguments[position + 1 :], arguments[position - 1]
    # After a flag that takes a value, `--` is that value, and the names could be anything.
    if before.startswith("-") and (before in ("-n", "--") or not _NO_VALUE.fullmatch(before)):
        return None
    # An unknown name could be a folder.
    if not names or any(re.search(r"[*?\[\\]|^:", name) or MARKED.search(name) for name in names):
        return None
    return [os.path.normpath(os.path.join(os.path.realpath(folder), name)) for name in names]  # noqa: PTH118
