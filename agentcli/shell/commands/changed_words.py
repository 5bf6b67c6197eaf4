"""The words of a command that could name a file it changes, for the question about protected paths.

Uses the strict parser only: if it fails, `counted_text` returns None and every word counts. Not counted are values of
exclusion options, `find` tests that exclude a folder, messages for git, text printed by `echo` and `printf`, and all
words of parts that are proven read-only. Whatever another program may take as input counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.commands.command_parts import CommandPart
from agentcli.shell.git_config import subcommand_index
from agentcli.shell.parser.programs import unwrapped

_PRINTERS = frozenset({"echo", "printf"})
_ALWAYS_COUNTED = frozenset({"cd", "pushd", "popd", "export", "set", "read"})
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
        start = unwrapped(command.words).start
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
