"""Split a command into parts: the folder each would run in, and whether it only reads allowed files.

Reads the file system (links, pattern matches, kind of repository) and changes nothing. Rules and modes are applied
later, by `policy`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.command_context import CommandContext, folder_objection, own_program
from agentcli.shell.commands.read_only import ASSIGNMENT, find_unknown_objection, has_script, objection
from agentcli.shell.commands.read_only_table import ANY_FILES, SCRIPT_PROGRAMS, STEERED
from agentcli.shell.git_config import toplevel
from agentcli.shell.parser.programs import (
    WRAPPERS,
    Words,
    Wrapped,
    harmless_assignment,
    is_lister,
    keeps_lines,
    only_filters,
    runs_input,
    runs_python_tests,
    unwrap,
)
from agentcli.shell.parser.strict_parser import CommandStep, NotPlain, Scope, SimpleCommand, plain_commands, plain_steps
from agentcli.shell.parser.words import MARKED, NAME, NUMBER, TOPLEVEL
from agentcli.shell.paths import expand_pattern

_MAX_WORDS = 400
"""A command with more words needs approval, to avoid looking up every word on disk."""
_MAX_FOLDERS = 12

_CHANGES_FOLDER = frozenset(
    "pushd popd eval source . exec alias shopt enable hash trap unalias unset declare typeset local readonly"  # noqa: SIM905
    " export".split()
)
"""After one of these (which only a rule can allow) the folder of the following parts is unknown."""

_IN_THE_SHELL = frozenset({"command", "builtin", "time", "-p"})
"""Wrappers that start no process. Behind any other wrapper a `cd` has no effect."""

_NAMES_NO_FILES = frozenset({"echo", "printf", "basename", "dirname", "true", "false", ":"})
"""Programs that treat a path as plain text."""
_ANY_FILES_GIT = frozenset({"diff", "log", "status", "ls-files", "show", "blame"})


@frozen
class CommandPart:
    command: SimpleCommand
    folders: tuple[str, ...]
    """Folders it may run in: several if an earlier `cd` may fail, none if unknown."""
    objection: str | None
    """Reason why it needs approval; None if it is read-only. Redirections are not considered."""
    inner: tuple[str, ...]
    """The words after all wrappers."""
    inner_text: str
    extended: bool = False
    """Whether unknown arguments are added to it (xargs)."""

    input_allowed: bool = False
    """Whether every file redirected to its input may be read without approval."""
    has_unknown_words: bool = False
    """Whether some of its words are known only at run time."""
    prints_names: bool = False
    """Whether its output consists of file names, for the next part."""

    @property
    def only_reads(self) -> bool:
        return self.objection is None and all(
            redirection.kind in ("harmless", "text") or (redirection.kind == "read" and self.input_allowed)
            for redirection in self.command.redirections
        )

    @property
    def rule_texts(self) -> tuple[tuple[str, bool], ...]:
        """Texts that an allow rule may match, each with whether the rule must allow any further arguments."""
        command = self.command
        fed = command.piped or command.concurrent or any(r.kind in ("text", "read") for r in command.redirections)
        if fed and runs_input(self.inner):
            return ((self.inner[0], True),)
        if command.expanded is not None:
            return tuple(
                (text, True) for text in (" ".join(command.sources[: command.expanded]), self.inner_text) if text
            )
        return ((command.text, False), (self.inner_text, self.extended))


def analyse(command: str, place: CommandContext) -> tuple[CommandPart, ...] | NotPlain:
    variables = _variables(command, place)
    steps = plain_steps(command, variables)
    if isinstance(steps, NotPlain):
        return steps
    return tuple(_CommandAnalysis(place, dict(variables).get(TOPLEVEL)).parts(steps))


_MOVES = lazy_pattern(r"\b(?:cd|pushd|popd)\b")


def _variables(command: str, place: CommandContext) -> tuple[tuple[str, str], ...]:
    """Environment variables with known values. Those that depend on the current folder are not known after a `cd`."""
    known = {"HOME": place.home or os.environ.get("HOME", ""), "TMPDIR": place.temp}
    if not _MOVES.search(command):
        known["PWD"] = place.cwd
    if TOPLEVEL in command and not _MOVES.search(command.removeprefix(f'cd "$({TOPLEVEL})"')):
        known[TOPLEVEL] = toplevel(place.cwd) or ""
    return tuple((name, value) for name, value in known.items() if value.startswith("/"))


def runs_beside_others(command: str) -> bool:
    """Whether a command is read-only and has no lasting effect on the shell, such as a `cd`."""
    parts = plain_commands(command)
    if isinstance(parts, NotPlain):
        return False
    for part in parts:
        start = unwrap(part.words).start
        words = part.words[start:]
        plain = not part.assignments and all(r.kind in ("harmless", "text") for r in part.redirections)
        plain = plain and part.expanded is None
        fixed = all(re.match(r"[A-Za-z0-9_./]", part.words[index]) for index in part.globs) and _takes_patterns(
            words, part.globs
        )
        if words[0] in ("cd", "set", "read") or not plain or not fixed or objection(words) is not None:
            return False
    return True


def _takes_patterns(words: tuple[str, ...], globs: frozenset[int]) -> bool:
    if not globs:
        return True
    program, first = words[0], min(globs)
    if program == "git":
        return len(words) > 1 and words[1] in _ANY_FILES_GIT
    if program in SCRIPT_PROGRAMS:
        return has_script(words[:first])
    # After their listing flags, the first name is the archive and all others are its members.
    return program in ANY_FILES or program in ("find", ":") or (program in ("unzip", "tar") and first > 1)


class _CommandAnalysis:
    """Analyses a command part by part, tracking the folder across `cd`."""

    def __init__(self, place: CommandContext, toplevel: str | None) -> None:
        """`toplevel`: what git prints as the top folder of the repository; None if the command does not ask it."""
        self._place = place
        self._toplevel = toplevel
        self._certain: tuple[str, ...] = (place.cwd,)
        """Current folders if everything joined by && succeeded."""
        self._seen: tuple[str, ...] = (place.cwd,)
        """All folders that any part may have entered."""
        self._loops = 0
        self._outer: list[tuple[tuple[str, ...], tuple[str, ...], int]] = []

    def parts(self, steps: tuple[CommandStep, ...]) -> list[CommandPart]:
        found: list[CommandPart] = []
        before: CommandStep | None = None
        for step in steps:
            if isinstance(step, Scope):
                self._scope(step)
            else:
                if step.joint not in ("&&", "|"):
                    self._certain = self._seen
                direct = step.piped and isinstance(before, SimpleCommand)
                found.append(self._part(step, found[-1] if direct else None))
            before = step
        return found

    def _scope(self, scope: Scope) -> None:
        if scope.kind == "subshell":
            if scope.begins:
                self._outer.append((self._certain, self._seen, self._loops))
                self._loops = 0
            else:
                self._certain, self._seen, self._loops = self._outer.pop()
            return
        if scope.kind == "loop":
            self._loops += 1 if scope.begins else -1
        self._certain = self._seen

    def _part(self, command: SimpleCommand, producer: CommandPart | None) -> CommandPart:
        wrapped = unwrap(command.words)
        start, folders = wrapped.start, self._certain
        inner = command.words[start:]
        reason = self._assignment_objection(command, inner) or self._program_objection(command, start)
        if inner[0] == "cd":
            reason = self._move(command, inner, of_the_shell=set(command.words[:start]) <= _IN_THE_SHELL) or reason
        elif inner[0] in _CHANGES_FOLDER or (inner[0] in ("set", "read") and objection(inner) is not None):
            # An activate script needs its own rule; it sets variables and does not change the folder.
            if not (inner[0] in ("source", ".") and len(inner) == 2 and inner[1].endswith("/bin/activate")):
                self._certain = self._seen = ()
            reason = reason or objection(inner)
        else:
            globs = frozenset(index - start for index in command.globs if index >= start)
            reason = reason or self._words_objection(inner, globs, wrapped, producer, folders)
        last = len(command.sources) if command.expanded is None else command.expanded
        text = " ".join(command.sources[start:last])
        extended = wrapped.extended or command.expanded is not None
        input_allowed = reason is None and not wrapped.extended and _input_allowed(command, folders, self._place)
        is_unknown = wrapped.extended or any(map(MARKED.search, inner))
        part = CommandPart(command, folders, reason, inner, text, extended, input_allowed, is_unknown)
        return replace(part, prints_names=self._prints_names(part, producer)) if command.feeds else part

    def _program_objection(self, command: SimpleCommand, start: int) -> str | None:
        words = command.words
        if command.expanded is not None and command.expanded <= start:
            return "the name of its program cannot be checked"
        programs = (word for word in (*words[:start], words[start]) if word in WRAPPERS or word == words[start])
        found = (own_program(word, self._place) for word in dict.fromkeys(programs))
        return next((clause for clause in found if clause is not None), None)

    def _words_objection(
        self,
        words: Words,
        globs: frozenset[int],
        wrapped: Wrapped,
        producer: CommandPart | None,
        folders: tuple[str, ...],
    ) -> str | None:
        """Reason why a command is not read-only in every folder where it may run."""
        has_names = wrapped.extended or any(NAME in word for word in words)
        if has_names and any(map(self._place.in_scratch, folders)):
            return "the names in the temp folder are unknown"
        if wrapped.extended:
            is_listed = producer is not None and producer.prints_names
            reason = self._names_objection("xargs", words, is_listed=is_listed)
            if reason is not None:
                return reason
        reason = find_unknown_objection(words, contained=self._place.passes_names)
        if reason is not None:
            return reason
        if words[0] == "exit" and len(words) == 2:
            return None if words[1] == NUMBER else objection(words)
        if words[0] in _NAMES_NO_FILES and not globs:
            return objection(words)
        if words[0] == "find" and "-exec" in words:
            return self._find_objection(words, globs, folders)
        return objection_here(words, globs, folders, self._place)

    def _names_objection(self, sender: str, command: Words, *, is_listed: bool) -> str | None:
        """Reason why a program may not receive names from `xargs` or `find -exec`."""
        given = tuple(word.replace("{}", NAME) for word in command)
        given = given if any(NAME in word for word in given) else (*given, NAME)
        if not is_listed or not self._place.passes_names or find_unknown_objection(given, contained=True) is not None:
            return f"the names that {sender} passes to {command[0]} are unknown"
        return objection(given)

    def _find_objection(self, words: Words, globs: frozenset[int], folders: tuple[str, ...]) -> str | None:
        """Reason for `find ROOTS FILTERS -exec COMMAND {} +`; for anything else with `-exec`, that of find itself."""
        at = words.index("-exec")
        search, command = words[:at], words[at + 1 : -1]
        # A file name matched by a pattern could be an action of find, and so could words after another `+`.
        ends_with_names = len(command) > 1 and command[-1] == "{}" and command.count("{}") == 1
        if globs or words[-1] not in ("+", ";") or not ends_with_names or {"+", ";"} & set(command):
            return objection(words)
        return (
            own_program(command[0], self._place)
            or (objection(words) if objection(command) is not None else None)
            or self._names_objection("find", command, is_listed=self._is_lister(search, folders))
            or objection_here(search, frozenset(), folders, self._place)
            or objection_here(command, frozenset(), folders, self._place)
        )

    def _prints_names(self, part: CommandPart, producer: CommandPart | None) -> bool:
        if not part.only_reads or len(part.inner) != len(part.command.words):
            return False
        if not part.command.piped:
            return self._is_lister(part.inner, part.folders)
        return producer is not None and producer.prints_names and keeps_lines(part.inner)

    def _is_lister(self, words: Words, folders: tuple[str, ...]) -> bool:
        """Whether a command prints names of files that another one may read. In the temp folder they may be links that
        lead anywhere, made by an earlier command."""
        named = (f"{folder}/{word}" if word[:1] != "/" else word for folder in folders for word in words[1:])
        return is_lister(words) and not any(map(self._place.in_scratch, named))

    def _assignment_objection(self, command: SimpleCommand, inner: Words) -> str | None:
        reason = None
        for name, value in command.assignments:
            if harmless_assignment(name, value):
                continue
            # Tests are the project's own code anyway, so a rule for them may include their import path.
            if name != "PYTHONPATH" or not runs_python_tests(inner) or not self._holds_entries(value):
                return f"{ASSIGNMENT}{name}={value} can change what programs do"
            reason = f"{inner[0]} may change files or run code"
        return reason

    def _holds_entries(self, value: str) -> bool:
        """Whether every folder of a search path is inside the working directories."""
        paths = [os.path.join(folder, entry) for folder in self._certain for entry in value.split(":")]  # noqa: PTH118
        return bool(paths) and "~" not in value and all(map(self._place.holds, paths))

    def _move(self, command: SimpleCommand, words: tuple[str, ...], *, of_the_shell: bool) -> str | None:
        moved: list[str] = []
        reason = None
        beside = command.piped or command.feeds or command.concurrent or self._loops > 0
        name = words[-1] or "."
        is_known = len(words) == 2 and name[0] != "-" and not MARKED.search(name)
        if beside or command.globs or not of_the_shell or not is_known:
            reason = f"the target of `{' '.join(command.sources)}` is unknown"
        for folder in self._certain if reason is None else ():
            target = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - pathlib would fold `..` late
            inside = self._place.resolve(target) == target and is_below(target, self._place.working_dirs)
            # Behind a link, the shell and the programs it starts disagree on `..`.
            if not inside and not self._place.in_scratch(target):
                reason = f"`cd {name}` leaves the working directories"
            # If git fails, `cd ""` stays where it is.
            moved += [target, folder] if name == self._toplevel else [target]
        if reason is not None or not moved or len({*self._seen, *moved}) > _MAX_FOLDERS:
            self._certain = self._seen = ()
            return reason or "the folder it would run in is unknown"
        self._certain = tuple(dict.fromkeys(moved))
        self._seen = tuple(dict.fromkeys((*self._seen, *moved)))
        return None


# --------------------------------------------------------------------------------------------- one part in its folders


def objection_here(
    words: tuple[str, ...], globs: frozenset[int], folders: tuple[str, ...], place: CommandContext
) -> str | None:
    """Reason why a part is not read-only or names a file that needs approval to read; None if neither."""
    if not folders:
        return None if only_filters(words) else "the folder it would run in is unknown"
    if words[0] == "git" and words[1:2] == ("-C",) and len(words) > 3:
        # With an empty name it stays in its folder.
        folders = (*folders, *(os.path.join(folder, words[2]) for folder in folders))  # noqa: PTH118
        if not all(place.holds(folder) for folder in folders):
            return f"{words[2]} is outside the working directories"
        words, globs = (words[0], *words[3:]), frozenset(index - 2 for index in globs)
    reason = objection(words) or (None if len(words) <= _MAX_WORDS else "it has too many words to check")
    if reason is not None:
        return reason
    # A search may show restricted files that its text does not name.
    if place.exposure is not None:
        found = (place.exposure.objection(words, globs, folder) for folder in folders)
        reason = next((clause for clause in found if clause is not None), None)
        if reason is not None:
            return reason
    if not _takes_patterns(words, globs):
        return "the pattern can expand to any number of words"
    return next((clause for folder in folders if (clause := _file_objection(words, globs, folder, place))), None)


def _file_objection(words: tuple[str, ...], globs: frozenset[int], folder: str, place: CommandContext) -> str | None:
    """Reason why files named by a command in one folder need approval."""
    if place.in_scratch(folder) and not place.holds(folder):
        if words[0] == "git" or words[0] in STEERED:
            return f"files in the temp folder can decide what {words[0]} runs"
        # In the sandbox the parent folder differs from the one outside.
        if any(".." in word for word in words[1:]):
            return "the folders above the temp folder are unknown"
    folder, given = place.locate(folder), words
    words = (words[0], *(_locate(word, folder, place) for word in words[1:]))
    reason = _find_named_objection(words, globs, folder, place)
    for word, located in zip(given, words, strict=True):
        if reason is not None and located != word:
            reason = reason.replace(located, word)
    return reason


def _locate(word: str, folder: str, place: CommandContext) -> str:
    """A word that names a path in the sandbox's `/tmp`, as the path outside; other words unchanged."""
    name, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    path = os.path.join(folder, value)  # noqa: PTH118
    located = place.locate(path) if value else path
    return word if located == path else f"{name}{equals}{located}"


def _find_named_objection(
    words: tuple[str, ...], globs: frozenset[int], folder: str, place: CommandContext
) -> str | None:
    if words[0] == "diff" and (globs or any(_names_folder(word, folder) for word in words[1:])):
        return "diff of folders follows links and shows files beyond the named ones"
    reason = folder_objection(words, folder, place)
    for index, word in enumerate(words[1:], 1):
        reason = reason or (
            _pattern_objection(words[0], word, folder, place)
            if index in globs
            else _word_objection(word, folder, place)
        )
    return reason


def _input_allowed(command: SimpleCommand, folders: tuple[str, ...], place: CommandContext) -> bool:
    for redirection in command.redirections:
        for folder in folders if redirection.kind == "read" else ():
            path = place.locate(os.path.join(folder, redirection.target))  # noqa: PTH118
            # Opening a pipe would block, and a missing file could become anything.
            if not os.path.isfile(path) or _word_objection(path, folder, place):  # noqa: PTH113
                return False
    return bool(folders)


def _names_folder(word: str, folder: str) -> bool:
    value = word.partition("=")[2] if word.startswith("-") else word
    try:
        return bool(value) and os.path.isdir(os.path.join(folder, value))  # noqa: PTH112, PTH118
    except ValueError:
        return False


def _word_objection(word: str, folder: str, place: CommandContext) -> str | None:
    value = word.partition("=")[2] if word.startswith("-") else word
    # Joined, not normalised: `link/..` is the parent of the link's target, not of the link.
    path = os.path.join(folder, value)  # noqa: PTH118
    # A missing file cannot be read: a search pattern such as /api/v1 needs no approval.
    if value in ("", "/dev/null") or not os.path.lexists(path):
        return None
    if place.hides is not None and place.hides(path):
        return f"{value} matches a deny or ask rule"
    return None if place.may_read(path) else f"{value} is outside the working directories"


_MISREAD_NAMES = {
    # Taken as a variable assignment, not a file.
    **dict.fromkeys(("awk", "gawk", "mawk"), re.compile(r"[A-Za-z_]\w*=")),
    # Taken as the name of a remote host.
    "tar": re.compile(r"[^:]*:"),
    # Taken as a file with further arguments.
    "strings": re.compile("@"),
}
"""Patterns of file names that these programs interpret as something else."""


def _pattern_objection(program: str, pattern: str, folder: str, place: CommandContext) -> str | None:
    matches = expand_pattern(pattern, folder)
    if pattern.startswith("-") and matches == []:
        # --include=*.py: no file has such a name, so the shell passes the word unchanged.
        return None
    if matches is None:
        return f"the pattern {pattern} matches too many files to check"
    for match in matches:
        if match.startswith("-"):
            return f"the pattern {pattern} matches {match}, which would be read as an option"
        if program in _MISREAD_NAMES and _MISREAD_NAMES[program].match(match):
            return f"the pattern {pattern} matches {match}, which is not a file name to {program}"
        path = os.path.join(folder, match)  # noqa: PTH118
        if not place.may_read(path):
            return f"the pattern {pattern} matches {match}, which leads outside the working directories"
        if place.hides is not None and place.hides(path):
            return f"the pattern {pattern} matches {match}, which matches a deny or ask rule"
    return None
