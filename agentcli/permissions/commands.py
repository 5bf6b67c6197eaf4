"""A plain command part by part: where each part would run, and whether it only reads what may be read.

Looks at the file system (links, matches of patterns, what kind of repository), changes nothing. Rules and modes are
not known here; `policy` puts them on top.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from agentcli.core.bounded_read import Reason, Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.permissions.gitconfig import runs_programs
from agentcli.permissions.gitfiles import is_repository
from agentcli.permissions.paths import expanded_pattern, is_below, real_path
from agentcli.permissions.reach import Reach
from agentcli.permissions.readonly import objection
from agentcli.permissions.shell import NotPlain, SimpleCommand, plain_commands
from agentcli.permissions.shelltable import STEERED_BY
from agentcli.permissions.wrappers import WRAPPERS, harmless_assignment, unwrapped

_MOST_WORDS = 400
"""A command with more words than this is asked about rather than having every word looked up on disk."""
_MOST_FOLDERS = 8
_MOST_PACKAGE_BYTES = 200_000

_CHANGES_FOLDER = frozenset(
    {
        "pushd",
        "popd",
        "eval",
        "source",
        ".",
        "exec",
        "export",
        "alias",
        "set",
        "shopt",
        "enable",
        "hash",
        "trap",
        "unalias",
    }
)
"""After one of these (which only a rule can allow) nothing is known about the parts that follow."""

_IN_THE_SHELL = frozenset({"command", "builtin", "time", "-p"})
"""Wrappers that start no process: behind any other a `cd` moves nobody."""

_ANY_FILES = frozenset(
    {
        "ls",
        "cat",
        "head",
        "tail",
        "wc",
        "stat",
        "file",
        "du",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "diff",
        "sort",
        "nl",
        "tac",
        "rev",
        "cut",
        "od",
    }
    | {
        "hexdump",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "echo",
        "cmp",
        "md5sum",
        "sha1sum",
        "sha256sum",
        "sha512sum",
    }
    | {"b2sum", "cksum", "sum", "tree", "strings", "fold", "paste", "printf", "column"}
)
"""Programs to which any number of further file names can do no harm, so that a pattern may stand among them."""
_ANY_FILES_GIT = frozenset({"diff", "log", "status", "ls-files", "show", "blame"})

_SHOWS_NO_CONTENT = frozenset({"ls", "basename", "dirname", "echo", "stat", "md5sum", "sha1sum", "sha256sum"})
"""Whatever names and flags they are given, they write nothing, run nothing and show nothing of what is in a file."""
_SHOWS_CONTENT = frozenset({"cat", "grep", "head"})
"""The same, but what is in a file comes out."""
_READS_LISTS = frozenset({"wc", "du"})
"""The same, but for a flag that names a file with names in it, of which an error message would show something."""


@frozen
class Place:
    """Where a command would run, and what it may read there. Folders are resolved."""

    cwd: str
    working_dirs: tuple[str, ...]
    readable: tuple[str, ...] = ()
    hides: Callable[[str], bool] | None = None
    """Whether a rule is about reading this file; None when there is no such rule."""
    resolve: Callable[[str], str] = real_path
    search_path: str = ""
    """Where the shell looks for programs: PATH. Empty: not looked at."""
    trusted: bool = True
    """Whether the person trusts the folder: then its repository may make git run programs."""
    reach: Reach | None = None
    """Which restricted files searches could show; None when no file is restricted."""

    @classmethod
    def of(
        cls,
        cwd: Path,
        working_dirs: tuple[Path, ...],
        readable: tuple[Path, ...] = (),
        hides: Callable[[str], bool] | None = None,
        resolve: Callable[[str], str] = real_path,
        search_path: str = "",
        trusted: bool = True,
        reach: Reach | None = None,
    ) -> Place:
        inside, beside = (tuple(resolve(str(folder)) for folder in folders) for folders in (working_dirs, readable))
        return cls(str(cwd), inside, beside, hides, resolve, search_path, trusted, reach)

    def holds(self, path: str) -> bool:
        """Whether a path leads into the working directories."""
        return is_below(self.resolve(path), self.working_dirs)

    def may_read(self, path: str) -> bool:
        real = self.resolve(path)
        return is_below(real, self.working_dirs) or is_below(real, self.readable)


@frozen
class Part:
    command: SimpleCommand
    folders: tuple[str, ...]
    """Where it may run: more than one when a `cd` before it may have failed, none when it cannot be known."""
    objection: str | None
    """Why it is not proven to only read what it may: a clause after `because`. Redirections are not counted."""
    inner: tuple[str, ...]
    """The words behind all wrappers."""
    inner_text: str
    extended: bool = False
    """Arguments are added to it that nobody knows beforehand (xargs)."""

    input_allowed: bool = False
    """Every file that it has redirected to its input is one that could be read without asking."""

    @property
    def only_reads(self) -> bool:
        return self.objection is None and all(
            redirection.kind == "harmless" or (redirection.kind == "read" and self.input_allowed)
            for redirection in self.command.redirections
        )


def analyse(command: str, place: Place) -> tuple[Part, ...] | NotPlain:
    parts = plain_commands(command)
    return parts if isinstance(parts, NotPlain) else tuple(_Course(place).parts(parts))


def runs_beside_others(command: str) -> bool:
    """Whether a command only reads and leaves nothing behind, not even another folder, wherever it runs."""
    parts = plain_commands(command)
    if isinstance(parts, NotPlain):
        return False
    for part in parts:
        start = unwrapped(part.words).start
        words = part.words[start:]
        plain = not part.assignments and all(r.kind == "harmless" for r in part.redirections)
        fixed = all(re.match(r"[A-Za-z0-9_./]", part.words[index]) for index in part.globs) and _takes_patterns(
            words, part.globs
        )
        if words[0] == "cd" or not plain or not fixed or objection(words) is not None:
            return False
    return True


def _takes_patterns(words: tuple[str, ...], globs: frozenset[int]) -> bool:
    if not globs:
        return True
    if words[0] == "git":
        return len(words) > 1 and words[1] in _ANY_FILES_GIT
    return words[0] in _ANY_FILES


class _Course:
    """Follows a command from part to part: a `cd` moves all that come after it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._certain: tuple[str, ...] = (place.cwd,)
        """The folders at this point if everything joined by && went well."""
        self._seen: tuple[str, ...] = (place.cwd,)
        """All folders that any part may have led to."""

    def parts(self, commands: tuple[SimpleCommand, ...]) -> list[Part]:
        found: list[Part] = []
        for command in commands:
            if command.joint not in ("&&", "|"):
                self._certain = self._seen
            found.append(self._part(command, found[-1] if command.piped and found else None))
        return found

    def _part(self, command: SimpleCommand, producer: Part | None) -> Part:
        wrapped = unwrapped(command.words)
        start, folders = wrapped.start, self._certain
        inner = command.words[start:]
        reason = self._assignment_objection(command)
        if reason is None:
            programs = (word for word in (*command.words[:start], inner[0]) if word in WRAPPERS or word == inner[0])
            found = (own_program(word, self._place) for word in dict.fromkeys(programs))
            reason = next((clause for clause in found if clause is not None), None)
        if inner[0] == "cd":
            reason = self._move(command, inner, of_the_shell=set(command.words[:start]) <= _IN_THE_SHELL) or reason
        elif inner[0] in _CHANGES_FOLDER:
            self._certain = self._seen = ()
            reason = reason or objection(inner)
        elif reason is None:
            shifted = frozenset(index - start for index in command.globs if index >= start)
            if wrapped.extended:
                reason = _xargs_objection(inner, producer, wrapped.null_separated, self._place)
            reason = reason or objection_here(inner, shifted, folders, self._place)
        text = " ".join(command.sources[start:])
        input_allowed = reason is None and not wrapped.extended and _input_allowed(command, folders, self._place)
        return Part(command, folders, reason, inner, text, wrapped.extended, input_allowed)

    @staticmethod
    def _assignment_objection(command: SimpleCommand) -> str | None:
        for name, value in command.assignments:
            if not harmless_assignment(name, value):
                return f"of the assignment {name}={value}"
        return None

    def _move(self, command: SimpleCommand, words: tuple[str, ...], *, of_the_shell: bool) -> str | None:
        moved: list[str] = []
        reason = None
        plain = len(words) == 2 and bool(words[1]) and not words[1].startswith("-") and not command.globs
        if not plain or not of_the_shell or command.piped or command.feeds:
            reason = f"it is not known where `{' '.join(words)}` leads"
        for folder in self._certain if reason is None else ():
            target = os.path.normpath(os.path.join(folder, words[1]))  # noqa: PTH118 - pathlib would fold `..` late
            # Behind a link the shell and the programs it starts disagree on what `..` is.
            if self._place.resolve(target) != target or not is_below(target, self._place.working_dirs):
                reason = f"`{' '.join(words)}` leads outside the working directories"
            moved.append(target)
        if reason is not None or not moved or len({*self._seen, *moved}) > _MOST_FOLDERS:
            self._certain = self._seen = ()
            return reason or "it is not known in which folder it would run"
        self._certain = tuple(dict.fromkeys(moved))
        self._seen = tuple(dict.fromkeys((*self._seen, *moved)))
        return None


# --------------------------------------------------------------------------------------------- one part in its folders

_BUILT_IN = frozenset(
    "cd echo printf test [ true false : pwd type command builtin exit time".split()  # noqa: SIM905
)


def own_program(name: str, place: Place) -> str | None:
    """An objection if the files of a working directory, which anybody may have written, choose what `name` runs."""
    if name in _BUILT_IN or "/" in name or not place.search_path:
        return None
    for entry in place.search_path.split(os.pathsep):
        if not entry.startswith("/"):
            return f"PATH has the entry {entry or '.'}, so that it is not known which {name} is run"
        path = os.path.join(entry, name)  # noqa: PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            inside = place.holds(entry) or place.holds(path)
            return f"{path}, which would be run, is among the files of a working directory" if inside else None
    return None


def objection_here(words: tuple[str, ...], globs: frozenset[int], folders: tuple[str, ...], place: Place) -> str | None:
    """Read-only by its words, and every file it names is one that could be read without asking."""
    if not folders:
        return "it is not known in which folder it would run"
    if words[0] == "git" and words[1:2] == ("-C",) and len(words) > 3:
        folders = tuple(os.path.join(folder, words[2]) for folder in folders)  # noqa: PTH118
        if not all(place.holds(folder) for folder in folders):
            return f"{words[2]} is outside the working directories"
        words, globs = (words[0], *words[3:]), frozenset(index - 2 for index in globs)
    reason = objection(words) or (None if len(words) <= _MOST_WORDS else "it has too many words to be analysed")
    if reason is not None:
        return reason
    # A search may bring out what a rule hides, and nothing in its text would show it.
    if place.reach is not None:
        found = (place.reach.objection(words, globs, folder) for folder in folders)
        reason = next((clause for clause in found if clause is not None), None)
        if reason is not None:
            return reason
    if not _takes_patterns(words, globs):
        return "of the pattern, which may become any number of words"
    if words[0] == "diff" and (globs or any(_names_folder(word, folder) for word in words[1:] for folder in folders)):
        return "diff of folders follows links and shows files that are not named"
    for folder in folders:
        reason = _folder_objection(words, folder, place)
        for index, word in enumerate(words[1:], 1):
            reason = reason or (
                _pattern_objection(word, folder, place) if index in globs else _word_objection(word, folder, place)
            )
        if reason is not None:
            return reason
    return None


def _input_allowed(command: SimpleCommand, folders: tuple[str, ...], place: Place) -> bool:
    for redirection in command.redirections:
        for folder in folders if redirection.kind == "read" else ():
            path = os.path.join(folder, redirection.target)  # noqa: PTH118
            # Opening a pipe would wait, and what is not there yet may become anything.
            if not os.path.isfile(path) or _word_objection(redirection.target, folder, place):  # noqa: PTH113
                return False
    return bool(folders)


def _names_folder(word: str, folder: str) -> bool:
    value = word.partition("=")[2] if word.startswith("-") else word
    try:
        return bool(value) and os.path.isdir(os.path.join(folder, value))  # noqa: PTH112, PTH118
    except ValueError:
        return False


def _word_objection(word: str, folder: str, place: Place) -> str | None:
    value = word.partition("=")[2] if word.startswith("-") else word
    # Joined, not normalised: `link/..` is where the link leads, not where it stands.
    path = os.path.join(folder, value)  # noqa: PTH118
    # What is not there cannot be read: a search pattern such as /api/v1 is no reason to ask.
    if value in ("", "/dev/null") or not os.path.lexists(path):
        return None
    if place.hides is not None and place.hides(path):
        return f"a rule is about {value}"
    return None if place.may_read(path) else f"{value} is outside the working directories"


def _pattern_objection(pattern: str, folder: str, place: Place) -> str | None:
    matches = expanded_pattern(pattern, folder)
    if pattern.startswith("-") and matches == []:
        # --include=*.py: there is no file of such a name, so the shell leaves it as it is.
        return None
    if matches is None:
        return f"the pattern {pattern} matches too much to be looked at"
    for match in matches:
        if match.startswith("-"):
            return f"the pattern {pattern} matches {match}, which would be taken for an option"
        path = os.path.join(folder, match)  # noqa: PTH118
        if not place.may_read(path):
            return f"the pattern {pattern} matches {match}, which leads outside the working directories"
        if place.hides is not None and place.hides(path):
            return f"the pattern {pattern} matches {match}, which a rule is about"
    return None


def _folder_objection(words: tuple[str, ...], folder: str, place: Place) -> str | None:
    steering = STEERED_BY.get(words[0], ())
    if words[0] != "git" and not steering:
        return None
    path = Path(real_path(folder))
    for ancestor in (path, *path.parents):
        for name in steering:
            if (ancestor / name).exists() and is_below(str(ancestor), place.working_dirs):
                return f"{name} chooses which {words[0]} is run"
        if words[0] in ("node", "npm", "npx") and _pins_node(ancestor) and is_below(str(ancestor), place.working_dirs):
            return f"package.json chooses which {words[0]} is run"
        if words[0] == "git":
            # A repository without a folder of its own for it can be made of ordinary files, settings that run included.
            if _like_a_repository(str(ancestor)):
                return f"{ancestor} is a bare repository, whose settings may run programs"
            # Git searches on above a `.git` that is no repository.
            if is_repository(ancestor / ".git"):
                break
    if words[0] == "git" and not place.trusted and (program := runs_programs(path, place.working_dirs)):
        return f"nobody has trusted this repository and {program}"
    return None


def _pins_node(folder: Path) -> bool:
    """volta takes its choice from the file that every project has, so its name alone says nothing."""
    text = read_bounded(folder / "package.json", _MOST_PACKAGE_BYTES)
    if isinstance(text, Unread):
        return text.reason is not Reason.MISSING
    return b'"volta"' in text or b"\\u" in text


def _like_a_repository(folder: str) -> bool:
    """By names alone: git takes a HEAD that leads nowhere, and looks elsewhere for the rest if a file says so."""
    head, common, objects, references = (
        os.path.lexists(os.path.join(folder, name))  # noqa: PTH118
        for name in ("HEAD", "commondir", "objects", "refs")
    )
    return head or common or (objects and references)


def _xargs_objection(words: tuple[str, ...], producer: Part | None, null_separated: bool, place: Place) -> str | None:
    """Names that come through a pipe: they may hold blanks, lead anywhere or look like flags."""
    program, names = words[0], f"xargs gives {words[0]} names that are not known beforehand"
    if producer is None or producer.objection is not None or producer.inner[0] not in ("find", "rg", "git", "ls", "fd"):
        return names
    if program in _SHOWS_NO_CONTENT:
        return None
    if not null_separated or any(place.reach.below(folder) for folder in place.working_dirs if place.reach):
        return names
    made = producer.inner
    if made[0] != "find" or producer.command.globs or not _prints_plain_names(made[1:]):
        return names
    if program in _READS_LISTS:
        return None
    plain_files = ("-type", "f") in pairwise(made)
    return None if plain_files and program in _SHOWS_CONTENT else names


_FIND_FILTERS = frozenset(
    "-type -name -iname -path -ipath -maxdepth -mindepth -size -mtime -mmin -newer -regex -iregex".split()  # noqa: SIM905
)


def _prints_plain_names(arguments: tuple[str, ...]) -> bool:
    """Roots, then filters with their values, then `-print0` once: the names begin with a root, so none is a flag."""
    position = 0
    while position < len(arguments) and arguments[position][:1] not in ("-", "!", "(", ",", ")"):
        position += 1
    while position + 1 < len(arguments) and arguments[position] in _FIND_FILTERS:
        position += 2
    return arguments[position:] == ("-print0",)
