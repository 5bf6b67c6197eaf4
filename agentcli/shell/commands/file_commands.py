"""Files that commands change: those of simple file commands, words that may name one, and effects on later parts.

Words count for the question about protected paths. Not counted are values of exclusion options, `find` tests that
exclude a folder, messages for git, text printed by `echo` and `printf`, and all words of parts that are proven
read-only. Whatever another program may take as input counts, and where the strict parser fails, every word does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.commands.command_parts import CommandPart
from agentcli.shell.commands.read_only import sed_only_prints
from agentcli.shell.commands.read_only_table import STEERED
from agentcli.shell.git_config import builds_repository, steers_git, subcommand_index
from agentcli.shell.parser.programs import unwrap
from agentcli.shell.paths import expand_pattern

MAX_REMOVED = 10
_MAX_OPERANDS = 200
_FLAGS = {
    "mkdir": r"-[pv]+|--parents|--verbose",
    "touch": r"-[acm]+",
    "cp": r"-[fnpuv]+",
    "mv": r"-[fnuv]+",
    "rm": r"-[fv]+|--force|--verbose",
    "tee": r"-[a]+|--append",
}
_SED_TEXT = lazy_pattern(r"[ ]*(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n])*/)?[ ]*[aic](?:\\)?[ \t][^\n]*")
"""`3a text`, `/x/i text`: adds or changes lines; the text extends to the end of the script."""


@frozen
class CommandChanges:
    writes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    """Removed names; for a link, the link itself."""
    moved: tuple[str, ...] = ()
    """Names moved to `target`."""
    target: str = ""


def part_changes(part: CommandPart, folder: str) -> CommandChanges | None:
    start = len(part.command.words) - len(part.inner)
    return file_changes(part.inner, folder, frozenset(index - start for index in part.command.globs))


def file_changes(words: tuple[str, ...], folder: str, globs: frozenset[int] = frozenset()) -> CommandChanges | None:
    """The paths that the command would write, read and remove; None if it is not one of these commands."""
    if words[0] == "sed":
        return _sed(words, folder, globs)
    if words[0] == "tee" and "/dev/null" in words[1:] and not globs:
        words = tuple(word for word in words if word != "/dev/null")
        if words == ("tee",):
            return CommandChanges(())
    flags = _FLAGS.get(words[0])
    if flags is None:
        return None
    operands: list[str] = []
    for index, word in enumerate(words[1:], 1):
        if word.startswith("-"):
            if operands or index in globs or not re.fullmatch(flags, word):
                return None
            continue
        found = _paths(word, folder, is_glob=index in globs)
        if found is None:
            return None
        operands += found
    if not operands or len(operands) > _MAX_OPERANDS:
        return None
    match words[0]:
        case "mkdir" | "touch" | "tee":
            return None if globs else CommandChanges(tuple(operands))
        case "rm":
            return CommandChanges((), removes=tuple(operands)) if is_plain_removal(operands) else None
        case _:
            return None if len(words) - 1 in globs else _transfer(words[0], operands)


def _paths(word: str, folder: str, *, is_glob: bool) -> list[str] | None:
    names = expand_pattern(word, folder) if is_glob else [word]
    # A name that begins with a dash would be parsed as a flag.
    if not word or not names or any(name.startswith("-") for name in names):
        return None
    return [os.path.join(folder, name) for name in names]  # noqa: PTH118 - `..` must stay for what links make of it


def is_plain_removal(paths: Sequence[str]) -> bool:
    folders = any(path.endswith(("/", "/.", "/..")) or (_is_folder(path) and not _is_link(path)) for path in paths)
    return not folders and len(paths) <= MAX_REMOVED


def _transfer(program: str, operands: list[str]) -> CommandChanges | None:
    if len(operands) < 2:
        return None
    *sources, target = operands
    # The target may have become a folder when the command runs.
    inside = [os.path.join(target, os.path.basename(os.path.normpath(source))) for source in sources]  # noqa: PTH118, PTH119
    if program == "mv":
        return CommandChanges((*sources, target, *inside), moved=tuple(sources), target=target)
    # A copied folder brings all its contents; cp without -r refuses folders, and so does this.
    if any(map(_is_folder, sources)):
        return None
    return CommandChanges((target, *inside), tuple(sources))


def _sed(words: tuple[str, ...], folder: str, globs: frozenset[int]) -> CommandChanges | None:
    """`sed -i` with scripts that only compute; with a suffix, copies of the files are written too."""
    scripts: list[str] = []
    operands: list[str] = []
    suffix: str | None = None
    script_next = False
    for index, word in enumerate(words[1:], 1):
        in_place = re.fullmatch(r"-[nErsuz]*i([\w.~-]*)|--in-place(?:=([\w.~-]+))?", word)
        if script_next:
            scripts.append(word)
            script_next = False
        elif in_place is not None and not operands:
            suffix = in_place[1] or in_place[2] or ""
        elif word in ("-e", "--expression") and not operands:
            script_next = True
        elif word.startswith("-"):
            if operands or index in globs or not re.fullmatch(r"-[nErsuz]+|--regexp-extended|--quiet", word):
                return None
        elif not scripts:
            if index in globs:
                return None
            scripts.append(word)
        else:
            found = _paths(word, folder, is_glob=index in globs)
            if found is None:
                return None
            operands += found
    harmless = all(sed_only_prints(script) or _SED_TEXT.fullmatch(script) for script in scripts)
    if suffix is None or script_next or not scripts or not harmless or not 0 < len(operands) <= _MAX_OPERANDS:
        return None
    copies = [path + suffix for path in operands] if suffix else []
    return CommandChanges((*operands, *copies), tuple(operands))


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _is_link(path: str) -> bool:
    return os.path.islink(path)  # noqa: PTH114


_MAKES_PLAIN_FILES = frozenset({"mkdir", "touch"})
_CHANGES_PLAIN_FILES = frozenset({"rm", "sed", "tee"})
"""Programs that create no links or folders, but depend on existing files."""
_COPIES = frozenset({"cp", "mv"})
_MOVES = frozenset({"cp", "mv", "ln", "install", "rsync", "tar", "unzip"})
"""Programs that can create links and folder trees anywhere."""
_USES_NO_FILES = frozenset({"echo", "printf", "true", "false", ":", "exit", "sleep", "date", "whoami", "seq"}) | {
    *("read", "set")
}

_MAX_TARGETS = 200
_CLAUSE = "an earlier part changes files that this part may use"


class EarlierEffects:
    """Tracks the effects of a command's allowed parts, in order."""

    def __init__(
        self, resolve: Callable[[str], str], is_obeyed: Callable[[str], bool], parts: Iterable[CommandPart] = ()
    ) -> None:
        """`is_obeyed`: whether other programs, such as git, run or obey the file at a path."""
        self._resolve = resolve
        self._is_obeyed = is_obeyed
        self._anything = False
        self._steers_git = False
        """Whether git may run or obey something that an earlier part wrote, or that part's targets are unknown."""
        self._targets: list[str] = []
        self._moved: list[str] = []
        """Paths below which anything may have become a link."""
        for part in parts:
            # In a loop, later parts run before earlier ones run again.
            if part.command.looped:
                self.note(part)

    def objection(self, part: CommandPart, *, by_rule: bool) -> str | None:
        """Reason why a part that is allowed now may act differently when it runs."""
        program = part.inner[0]
        changes = program in _MAKES_PLAIN_FILES | _CHANGES_PLAIN_FILES | _MOVES and part.objection is not None
        beside = part.command.piped or part.command.feeds or part.command.concurrent
        # `tee` writes one regular file, like a redirection.
        if changes and program != "tee" and not by_rule and beside:
            # All parts of a pipeline run at the same time.
            return "it changes files while the rest of the pipeline runs"
        written = self._written(part, changes=changes and not by_rule)
        if written and builds_repository([*self._targets, *map(self._resolve, written)]):
            return "it completes a git repository, whose settings may run programs"
        if not self._anything:
            return None
        if not by_rule and not self._still_proven(part, changes=changes):
            return _CLAUSE
        return None if all(map(self._is_plain, written)) else _CLAUSE

    def note(self, part: CommandPart) -> None:
        redirected = any(redirection.kind == "write" for redirection in part.command.redirections)
        program = part.inner[0]
        changes = part.objection is not None and program in _MAKES_PLAIN_FILES | _CHANGES_PLAIN_FILES | _MOVES
        if not redirected and not changes:
            return
        self._anything = True
        plain = bool(part.folders) and not (changes and part.has_unknown_words)
        for folder in part.folders or ("/",):
            found = part_changes(part, folder) if changes else CommandChanges(())
            if program in _MOVES and changes:
                self._moved += [self._resolve(path) for path in found.writes] if found else ["/"]
            plain = plain and found is not None
        self._note_targets(self._written(part, changes=changes) if plain else None)

    def _note_targets(self, paths: list[str] | None) -> None:
        if paths is None or len(self._targets) + len(paths) > _MAX_TARGETS:
            self._steers_git = True
            return
        self._targets += (self._resolve(path) for path in paths)
        self._steers_git = self._steers_git or any(map(self._is_obeyed, paths)) or steers_git(self._targets)

    def _still_proven(self, part: CommandPart, *, changes: bool) -> bool:
        program = part.inner[0]
        if program in _USES_NO_FILES and not part.command.globs and not changes:
            return True
        if part.command.globs or part.has_unknown_words:
            return False
        if changes:
            return program in _MAKES_PLAIN_FILES or (program in _CHANGES_PLAIN_FILES | _COPIES and not self._moved)
        if program == "git":
            return not self._moved and not self._steers_git
        # New folders, files and contents do not redirect a path, but these programs depend on which files exist.
        return not self._moved and program not in STEERED

    def _written(self, part: CommandPart, *, changes: bool) -> list[str]:
        paths: list[str] = []
        for folder in part.folders:
            names = (r.target for r in part.command.redirections if r.kind == "write")
            paths += [os.path.join(folder, name) for name in names]  # noqa: PTH118
            found = part_changes(part, folder) if changes else None
            paths += (*found.writes, *found.removes) if found else ()
        return paths

    def _is_plain(self, path: str) -> bool:
        """Whether a path passes through no link, now or later."""
        real = self._resolve(path)
        return real == os.path.normpath(path) and not is_below(real, self._moved)


_PRINTERS = frozenset({"echo", "printf"})
_ALWAYS_COUNTED = frozenset({"cd", "pushd", "popd", "set", "read"})
"""Read-only, but later parts depend on their words."""
_EXCLUDING = frozenset("grep egrep fgrep rg tar gtar rsync du diff tree ruff mypy flake8 black isort pytest".split())  # noqa: SIM905
_JOINED_EXCLUSION = lazy_pattern(r"--(?:extend-)?(?:exclude|exclude-dir|ignore)=|--i?glob=!|-g!")
_PRECEDES_OPTION = lazy_pattern(r"-[avzrlnPhu]+|[^-].*", re.DOTALL)
"""A word whose next word is not its value."""
_FIND_TESTS = lazy_pattern(r"-i?(?:name|path|wholename|regex)\Z")
_NEGATIONS = ("!", "-not")
_ALTERNATIVES = frozenset({"-o", "-or", "("})
_UNPRUNED = frozenset({"-delete", "-depth", "-d"})
"""With one of these, find enters a folder before it could prune it."""
_MESSAGE = lazy_pattern(r"-[aqsvn]*m\Z|--message\Z")
_JOINED_MESSAGE = lazy_pattern(r"(?:-[aqsvn]*m|--message=)(?=.)", re.DOTALL)
_MESSAGE_COMMANDS = frozenset({"commit", "tag", "stash", "notes"})
_READS_MESSAGE = frozenset({("-F", "-"), ("--file", "-")})


def counted_text(parts: Sequence[CommandPart | None]) -> str | None:
    """The command without words that cannot name a changed file; None if every word counts."""
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    lines: list[str] = []
    for index, part in enumerate(known):
        command = part.command
        only_read = part.only_reads and part.inner[0] not in _ALWAYS_COUNTED
        taken = _is_taken(known, index)
        if only_read and not taken:
            continue
        if command.expanded is not None:
            return None
        lines += [f"{name}={value}" for name, value in command.assignments]
        start = unwrap(command.words).start
        inner = command.words[start:]
        prints = _prints(inner) and not taken and not _is_used_later(known, index)
        unchanged = frozenset(range(1, len(inner))) if prints else _unchanged(inner)
        lines.append(" ".join(text for i, text in enumerate(command.sources) if i - start not in unchanged))
        for redirection in command.redirections:
            is_text = redirection.kind == "text"
            if (
                is_text
                and (prints or _reads_message(inner))
                and redirection.text.startswith("<<")
                and redirection.target
            ):
                continue
            lines += [redirection.text, redirection.target]
    return "\n".join(lines)


def _is_taken(parts: Sequence[CommandPart], index: int) -> bool:
    """Whether a part that is not read-only may get its output as input."""
    while True:
        command = parts[index].command
        if command.concurrent:
            return True
        if not command.feeds:
            return False
        index += 1
        if index == len(parts) or not parts[index].only_reads:
            return True


def _prints(words: Sequence[str]) -> bool:
    """`echo`, `printf`, and `cat` of a here-document: their words are the contents that are written."""
    return words[0] in _PRINTERS or tuple(words) in (("cat",), ("cat", "-"))


def _is_used_later(parts: Sequence[CommandPart], index: int) -> bool:
    """Whether a later part that is not read-only names the file that a part writes its output to."""
    targets = [r.target.rpartition("/")[2] for r in parts[index].command.redirections if r.kind == "write"]
    for later in parts[index + 1 :]:
        if later.only_reads or later.inner[:2] in (("git", "add"), ("git", "commit")) or later.inner[0] in _PRINTERS:
            continue
        words = (*later.command.words, *(r.target for r in later.command.redirections))
        if any(target in word for target in targets for word in words):
            return True
    return False


def _unchanged(words: tuple[str, ...]) -> frozenset[int]:
    """Indexes of the words that do not name anything the command changes."""
    program = words[0].rpartition("/")[2]
    if program == "find":
        return _kept_away(words)
    if program == "git":
        return _messages(words)
    return _excluded(program, words) if program in _EXCLUDING else frozenset()


def _excluded(program: str, words: tuple[str, ...]) -> frozenset[int]:
    found = {index for index, word in enumerate(words) if _JOINED_EXCLUSION.match(word)}
    for index, word in enumerate(words[:-1]):
        # tar takes the word after its first one for the archive.
        is_option = index == 1 or (program[-3:] != "tar" and _PRECEDES_OPTION.fullmatch(words[index - 1]))
        excludes = word in ("--exclude", "--exclude-dir") or (word == "-g" and words[index + 1].startswith("!"))
        if excludes and is_option:
            found.add(index + 1)
    return frozenset(found)


def _kept_away(words: tuple[str, ...]) -> frozenset[int]:
    """Indexes of the names that `find` tests exclude: pruned at the beginning, or negated without alternatives."""
    first = start = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    pruned, negated = set[int](), set[int]()
    while words[start + 2 : start + 4] == ("-prune", "-o") and _FIND_TESTS.match(words[start]):
        if words[start - 1] in (*_NEGATIONS, "("):
            break
        pruned.add(start + 1)
        start += 4
    # The words of a program that it runs are that program's.
    end = next((index for index, word in enumerate(words) if word.startswith(("-exec", "-ok"))), len(words) - 1)
    for index in range(start, end):
        is_negated = words[index - 1] in _NEGATIONS and words[index - 2] not in _NEGATIONS
        if is_negated and _FIND_TESTS.match(words[index]):
            negated.add(index + 1)
    if "," in words or not _UNPRUNED.isdisjoint(words):
        return frozenset()
    return frozenset(pruned if _ALTERNATIVES & {*words[:first], *words[start:]} else pruned | negated)


def _messages(words: tuple[str, ...]) -> frozenset[int]:
    start = subcommand_index(words)
    found: set[int] = set()
    for index in range(start + 1, len(words)) if words[start : start + 1] else ():
        if words[start] not in _MESSAGE_COMMANDS or words[index] == "--":
            break
        if index in found:
            continue
        if _MESSAGE.match(words[index]):
            found.add(index + 1)
        elif _JOINED_MESSAGE.match(words[index]):
            found.add(index)
    return frozenset(found)


def _reads_message(words: tuple[str, ...]) -> bool:
    """Whether git reads the here-document as a message."""
    start = subcommand_index(words)
    if words[0] != "git" or words[start : start + 1] not in (("commit",), ("tag",), ("notes",)):
        return False
    rest = words[start + 1 :]
    return "-F-" in rest or "--file=-" in rest or any(pair in _READS_MESSAGE for pair in pairwise(rest))
