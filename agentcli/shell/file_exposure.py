"""Restricted files that a read-only command could show without naming them, through folder searches or git.

A rule such as `Read(.env)` must also apply to `grep -r` and `git log -p`, but must not make `git status` or a search of
another folder need approval. So the folders and the repository's index and history are checked; if that takes too long,
the command needs approval. Files hidden by the sandbox do not count, except in git, which has its own copies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from agentcli.core.files.bounded_read import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
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
        if self.visible is None or not _searches_contents(words):
            return None
        skips_hidden = words[0] == "rg" and not any(map(_UNHIDES.match, words)) and not os.environ.get(_RG_OPTIONS)
        found = (self._first_below(root, skips_hidden=skips_hidden) for root in _roots(words, globs, folder))
        return next((clause for clause in found if clause is not None), None)

    def below(self, folder: str) -> str | None:
        """Like `objection`, for a command that may read every file below a folder, such as `find … -exec cat {} +`."""
        return self._first_below(folder)

    def _first_below(self, root: str, *, skips_hidden: bool = False) -> str | None:
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
            name = os.path.relpath(path, real)
            is_hidden = any(part.startswith(".") for part in name.split("/"))
            if not (skips_hidden and is_hidden) or _may_be_unhidden(path):
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
        paths = self.tracked.matching(folder, self.stored.specs, self.stored.hides, self.working_dirs, self.search_path)
        if paths is None:
            return "git took too long to list files that rules restrict"
        if not paths:
            return None
        return f"it could show {os.path.basename(paths[0])}, matched by {self.stored.rule_for(paths[0])}"  # noqa: PTH119


# ----------------------------------------------------------------------------------------------- searches of folders

_RG_OPTIONS = "RIPGREP_CONFIG_PATH"
_UNHIDES = lazy_pattern(r"-[A-Za-z0-9]*[.ugtT]|--hidden|--unrestricted|--i?glob|--type|--(?:no-)?ignore|--pre")
"""Flags that make ripgrep search hidden files, directly or because a glob or type matches them."""
_TAKES_VALUE = lazy_pattern(r"rg(?: .*)? -[\w.]*r|.* (?:-[\w.]*[efgtTABCmjMEdD]|--[a-z-]+(?: |$))", re.DOTALL)
"""Commands with a flag that may contain the pattern or take the next word as its value; too many only ask more."""
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_MAX_IGNORE_BYTES = 65_536


def _searches_contents(words: Words) -> bool:
    """Whether a command searches the contents of a whole folder."""
    if words[0] == "rg":
        return words[1:] not in (("--version",), ("--help",), ("--files",), ("--type-list",))
    recursive = re.compile(r"-[A-Za-z]*[rd]|--recursive|--directories")
    return words[0] in ("grep", "egrep", "fgrep") and any(map(recursive.match, words[1:]))


def _roots(words: Words, globs: frozenset[int], folder: str) -> list[str]:
    """The folders and files that a search looks through; the current folder too unless others are certain."""
    names = [index for index, word in enumerate(words) if index and not word.startswith("-")]
    certain = len(names) > 1 and _TAKES_VALUE.match(" ".join(words)) is None
    roots: list[str] = [] if certain else [folder]
    for index in names:
        roots += (expanded_pattern(words[index], folder) or [folder]) if index in globs else [words[index]]
    return [os.path.join(folder, name) for name in roots]  # noqa: PTH118


def _may_be_unhidden(path: Path) -> bool:
    """Whether an ignore file above a path has a `!` line, which makes ripgrep search hidden files too."""
    for folder in path.parents:
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
