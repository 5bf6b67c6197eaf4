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
_EXCLUDING = frozenset(
    "grep egrep fgrep rg tar gtar rsync du diff fd fdfind ag tree ruff mypy flake8 black isort pylint bandit codespell"  # noqa: SIM905
    " pytest cloc tokei prettier eslint".split()
)
_EXCLUSION = lazy_pattern(r"--(?:extend-)?(?:exclude|exclude-dir|ignore|ignore-dir|ignore-pattern)\Z")
_JOINED_EXCLUSION = lazy_pattern(
    r"(?:--(?:extend-)?(?:exclude|exclude-dir|ignore|ignore-dir|ignore-pattern)=|--i?glob=!)"
)
_GLOB_OPTIONS = frozenset({"-g", "--glob", "--iglob"})
_TAKES_VALUE = {"tar": "fCTXIbgKLNVHF", "gtar": "fCTXIbgKLNVHF", "rsync": "efMTB", "du": "dBtX", "diff": "xXISFUCW"}
_FLAGS = frozenset(
    {"--delete", "--archive", "--verbose", "--recursive", "--progress", "--dry-run", "--gzip", "--create", "--extract"}
    | {"--list", "--exclude-vcs", "--hidden", "--no-ignore", "--files-with-matches", "--line-number", "--ignore-case"}
)
"""Long options without a value: the word after one is never its value."""
_FIND_TESTS = lazy_pattern(r"-i?(?:name|path|wholename|regex)\Z")
_FIND_OPTIONS = frozenset({"-L", "-P", "-H", "-xdev", "-mount", "-maxdepth", "-mindepth"})
_NEGATIONS = frozenset({"!", "-not"})
_ALTERNATIVES = frozenset({"-o", "-or", ","})
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
        if part.unresolved or command.expanded is not None or command.others:
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
    found: set[int] = set()
    for index, word in enumerate(words):
        if word == "--":
            break
        if _JOINED_EXCLUSION.match(word) or (program == "rg" and word.startswith("-g!")):
            found.add(index)
        if index == 0 or index + 1 == len(words) or _takes_next(program, words, index - 1):
            continue
        separate = _EXCLUSION.match(word) or (program in ("fd", "fdfind") and word == "-E")
        if separate or (program == "rg" and word in _GLOB_OPTIONS and words[index + 1].startswith("!")):
            found.add(index + 1)
    return frozenset(found)


def _takes_next(program: str, words: tuple[str, ...], index: int) -> bool:
    """Whether the next word may be the value of this one, and not an option."""
    word = words[index]
    if word.startswith("--"):
        return "=" not in word and word not in _FLAGS
    # tar parses its first word as options even without a hyphen.
    is_option = word.startswith("-") or (index == 1 and program in ("tar", "gtar"))
    return is_option and word[-1:] in _TAKES_VALUE.get(program, "efmABCdDgtTjMrE")


def _kept_away(words: tuple[str, ...]) -> frozenset[int]:
    """Indexes of the names that `find` tests exclude: negated at the top level, or pruned."""
    start = next((i for i, word in enumerate(words) if i and (word.startswith("-") or word in ("!", "("))), len(words))
    while words[start : start + 1] and words[start] in _FIND_OPTIONS:
        start += 2 if words[start].endswith("depth") else 1
        while words[start : start + 1] and not words[start].startswith(("-", "!", "(")):
            start += 1
    found: set[int] = set()
    if "," in words or start >= len(words):
        return frozenset()
    while _UNPRUNED.isdisjoint(words) and words[start + 2 : start + 4] in (("-prune", "-o"), ("-prune", "-or")):
        if not _FIND_TESTS.match(words[start]):
            break
        found.add(start + 1)
        start += 4
    depth, negations, index, negated = 0, 0, start, set[int]()
    for index in range(start, len(words)):
        word = words[index]
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            # The words up to its end belong to another program.
            break
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in _ALTERNATIVES:
            return frozenset(found)
        if depth == 0 and negations % 2 == 1 and _FIND_TESTS.match(word) and index + 1 < len(words):
            negated.add(index + 1)
        negations = negations + 1 if word in _NEGATIONS else 0
    # The words after the program could be an alternative, too.
    return frozenset(found) if any(word in _ALTERNATIVES for word in words[index + 1 :]) else frozenset(found | negated)


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
