"""Where a command would run, which files it may read there, and what decides which program runs under a name.

Restricted files: a rule such as `Read(.env)` must also apply to `grep -r` and `git log -p`, but must not make
`git status` or a search of another folder need approval. So the folders and the repository's index and history are
checked; if that takes too long, the command needs approval. Files hidden by the sandbox do not count, except in git,
which has its own copies.

Programs: a command is read-only only if nothing that it runs can be chosen by files of a working directory, which a
model or an untrusted author may have written: programs on PATH, version managers, git settings. A sandbox that contains
read-only commands makes that harmless, except for git, whose answers the user relies on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.core.files.access import Reason, Unread, is_below, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.commands.read_only_table import STARTS, STEERED, STEERING_FILES
from agentcli.shell.git_config import is_repository, runs_programs
from agentcli.shell.parser.words import MARKED
from agentcli.shell.paths import expand_pattern, real_path
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

    def below(self, root: str) -> str | None:
        """Like `objection`, for a command that may read every file below a folder, such as `find … -exec cat {} +`."""
        return self._first_below(root)

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
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_MAX_IGNORE_BYTES = 65_536
_TAKES_VALUE = lazy_pattern(r"rg(?: .*)? -[\w.]*r|.* (?:-[\w.]*[efgtTABCmjMEdD]|--[a-z-]+(?: |$))", re.DOTALL)
"""Commands with a flag that may contain the pattern or take the next word as its value; too many only ask more."""


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
        roots += (expand_pattern(words[index], folder) or [folder]) if index in globs else [words[index]]
    return [os.path.join(folder, name) for name in roots]  # noqa: PTH118


def _may_be_unhidden(path: Path) -> bool:
    """Whether an ignore file above a path has a `!` line, which makes ripgrep search hidden files too."""
    for folder in path.parents:
        for name in _IGNORE_FILES:
            text = _read_ignore_file(folder / name)
            if text is None or any(line.lstrip().startswith(b"!") for line in text.splitlines()):
                return True
    return False


def _read_ignore_file(path: Path) -> bytes | None:
    """Empty if there is none, None if it is too long or not a regular file."""
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


@frozen
class CommandContext:
    """Where a command would run, and what it may read there. Working directories are resolved."""

    cwd: str
    working_dirs: tuple[str, ...]
    readable: tuple[Path, ...] = ()
    """More readable folders; resolved only when a path outside the working directories is checked."""
    hides: Callable[[str], bool] | None = None
    """Whether a rule restricts reading this file; None without such rules."""
    resolve: Callable[[str], str] = real_path
    search_path: str = ""
    """Search path of the shell (PATH). Empty: not checked."""
    home: str = ""
    """Value of `$HOME` for commands; empty: same as in this process."""
    temp: str = ""
    """Value of `$TMPDIR` for commands; empty if unknown."""
    trusted: bool = True
    """Whether the user trusts the folder, so that its repository may make git run programs."""
    exposure: FileExposure | None = None
    """Restricted files that searches could show; None if no file is restricted."""
    relocate: Callable[[str], str] = str
    """Maps a path to the path outside the sandbox, whose `/tmp` is private."""
    scratch: tuple[str, ...] = ()
    """The session's temp folder, outside of the sandbox."""
    contained: bool = False
    """Whether read-only commands run in a sandbox that hides secrets and files of deny rules."""

    @classmethod
    def of(cls, cwd: Path, working_dirs: Sequence[Path]) -> CommandContext:
        """A context without rules and without a sandbox."""
        return cls(str(cwd), tuple(real_path(str(folder)) for folder in working_dirs))

    def locate(self, path: str) -> str:
        """Map a path of the command to the path outside the sandbox, also if `..` or a link leads to the private
        `/tmp`."""
        found = self.relocate(path)
        if found != path or self.relocate is str:
            return found
        real = real_path(path)
        moved = self.relocate(real)
        return path if moved == real else moved

    def in_scratch(self, folder: str) -> bool:
        """Whether a folder of the command is the session's temp folder or below it, without passing through a link."""
        located = os.path.normpath(self.locate(folder))
        for own in self.scratch:
            if is_below(located, (own,)):
                return real_path(located) == real_path(own) + located[len(own) :]
        return False

    @property
    def passes_names(self) -> bool:
        """Whether a read-only program may receive any file names that another one prints: a sandbox keeps secrets from
        it, and there is no other restricted file that it could show."""
        exposure = self.exposure
        return self.contained and (exposure is None or not any(map(exposure.below, self.working_dirs)))

    def holds(self, path: str) -> bool:
        """Whether a path resolves into the working directories."""
        return is_below(self.resolve(path), self.working_dirs)

    def may_read(self, path: str) -> bool:
        real = self.resolve(path)
        return is_below(real, self.working_dirs) or is_below(
            real, (self.resolve(str(folder)) for folder in self.readable)
        )


_BUILT_IN = frozenset(
    "cd echo printf test [ [[ true false : pwd type command builtin exit time read set".split()  # noqa: SIM905
)


def own_program(name: str, place: CommandContext) -> str | None:
    """Reason if files of a working directory decide what `name` runs or starts; else None."""
    for program in (name, *STARTS.get(name, ())) if not place.contained else ():
        reason = _found_inside(program, place)
        if reason is not None:
            return reason if program == name else f"{name} starts {program}, and {reason}"
    return None


def _found_inside(name: str, place: CommandContext) -> str | None:
    if name in _BUILT_IN or "/" in name or not place.search_path:
        return None
    for entry in place.search_path.split(os.pathsep):
        if not entry.startswith("/"):
            return f"PATH contains {entry or '.'}, so any {name} may run"
        path = os.path.join(entry, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            inside = place.holds(entry) or place.holds(path)
            return f"the program {path} is a file in a working directory" if inside else None
    return None


# ---------------------------------------------------------------------------------- files that select or configure


def folder_objection(words: Sequence[str], folder: str, place: CommandContext) -> str | None:
    """Reason if files in or above the folder decide what runs; else None. Where a sandbox contains read-only commands,
    only what git obeys counts."""
    program = words[0]
    if program == "git":
        return _git_objection(Path(real_path(folder)), place)
    if place.contained:
        return None
    config = os.environ.get(_RG_OPTIONS) if program == "rg" and "--no-config" not in words else None
    if config and place.holds(os.path.join(folder, config)):  # noqa: PTH118
        return f"rg reads options from {config}, which can make it run programs"
    if program == "pip" and words[1:] != ("--version",):
        return "pip loads code that a working directory may have installed"
    path = Path(real_path(folder))
    for ancestor in (path, *path.parents) if program in STEERED else ():
        for name in STEERING_FILES if is_below(str(ancestor), place.working_dirs) else ():
            if (ancestor / name).exists():
                return f"{name} can decide which {program} runs"
    return None


def _git_objection(folder: Path, place: CommandContext) -> str | None:
    for ancestor in (folder, *folder.parents):
        # A bare repository consists of ordinary files, including settings that run programs.
        if _like_a_repository(str(ancestor)):
            return f"{ancestor} is a bare repository, whose settings may run programs"
        # Git continues searching above a `.git` that is not a repository.
        if is_repository(ancestor / ".git"):
            break
    if not place.trusted and (setting := runs_programs(folder, place.working_dirs)):
        return f"this repository is not trusted and {setting}"
    return None


def _like_a_repository(folder: str) -> bool:
    """Judged by names alone: git accepts a HEAD that leads nowhere, and a file can point it to the rest elsewhere."""
    head, common, objects, references = (
        os.path.lexists(os.path.join(folder, name))  # noqa: PTH118
        for name in ("HEAD", "commondir", "objects", "refs")
    )
    return head or common or (objects and references)
