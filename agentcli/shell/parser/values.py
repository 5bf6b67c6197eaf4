"""Values of shell variables, as far as the command text determines them.

In a value, characters of the private use area stand for parts known only at run time. No word of a command can contain
such a character: `words` refuses them. Assignments are collected regardless of control flow, so a variable has every
value that any earlier assignment could have given it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.parser.syntax_tree import MOST_VALUES

UNKNOWN = "\ue000"
"""Any text, as one word."""
NUMBER = "\ue001"
"""An integer, possibly negative."""
SOME = "\ue002"
"""Text without pattern characters; any number of words if unquoted."""
PWD, HOME, TEMP = "\ue003", "\ue004", "\ue005"
"""`$PWD`, `$HOME` and `$TMPDIR` of the command's context."""
UNQUOTED = "\ue006"
"""Precedes an unquoted value of the context, which must be one plain word."""
MATCH, MATCH_END = "\ue007", "\ue008"
"""Enclose a pattern; together they stand for one of the names that it matches."""
STREAM = "\ue00a"
"""The path that the shell substitutes for `<(…)`."""
NAME = "\ue00b"
"""Names of files or revisions that a command of the same text prints; any number of words if unquoted. Where a sandbox
contains the command, read-only programs may have any."""
TOPLEVEL = "\ue00e"
"""Output of `git rev-parse --show-toplevel`: the folder of the repository, or nothing if git fails."""

MARKED = lazy_pattern("[\ue000-\ue00f]")
NOT_KNOWN = lazy_pattern(f"[{UNKNOWN}{NUMBER}{SOME}{STREAM}{NAME}]")
OF_THE_PLACE = lazy_pattern(f"[{PWD}{HOME}{TEMP}{MATCH}{TOPLEVEL}]")
VARIES = lazy_pattern(f"[{MATCH}{TOPLEVEL}]")
"""Values that depend on files, which an earlier part of the command may change."""
ONE_WORD = lazy_pattern(
    f"{MATCH}[^{MATCH_END}]*{MATCH_END}|[{NUMBER}{SOME}{PWD}{HOME}{TEMP}{UNQUOTED}{NAME}{TOPLEVEL}]"
)
"""Values that stay one word if unquoted, or are marked as any number of words."""
UNDECIDED = lazy_pattern(f"[{UNKNOWN}{NUMBER}{SOME}{MATCH}{STREAM}{NAME}{TOPLEVEL}]")
"""Values that cannot be part of a pattern or of a redirection target."""
PLAIN_TEXT = lazy_pattern(r"[A-Za-z0-9_\-./:,+@%=^#]*")
INTEGER = lazy_pattern(rf"-?\d{{1,18}}|{NUMBER}")

_FROM_THE_PLACE = {"PWD": PWD, "HOME": HOME, "TMPDIR": TEMP}
_NUMBERS = frozenset({"UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "SHLVL"})
_NO_SECRETS = frozenset({"USER", "LOGNAME", "SHELL", "LANG", "TERM", "PATH", "HOSTNAME", "OSTYPE", "HOSTTYPE"}) | {
    *("VIRTUAL_ENV", "BASH_VERSION", "MACHTYPE", "COLUMNS", "LINES"),
}
"""Environment variables that may be shown. Any other could hold a key."""

_OWN_NAME = lazy_pattern(
    r"(?!npm_|auto_resume$|histchars$)[a-z_][a-z0-9_]{0,30}"
    r"|(?:SRC|DST|OUT|TEST|BASE|ROOT|TARGET|LOG)_?(?:FILE|FILES|DIR|DIRS|PATH|NAME)?"
    r"|[A-Z]\d?|OLD|NEW|FIRST|LAST|START|END|VALUE|VAR|REV|REF|VERSION|REPO|PKG|MODULE|OUTPUT"
    r"|FILES?|DIRS?|NAMES?|COUNT|TOTAL|MSG|MESSAGE|PATTERN|BRANCH|COMMIT|HASH|SHA|RESULT|STATUS|LINE|WORD|ITEM|KEY_NAME"
)


def is_own_name(name: str) -> bool:
    """Whether no program reads a variable of this name, so that setting it affects only the command itself."""
    return _OWN_NAME.fullmatch(name) is not None and not name.endswith("_proxy")


@dataclass
class Variables:
    values: dict[str, list[str]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    """Names certainly assigned by now, so that the environment's value no longer applies."""
    overflowed: set[str] = field(default_factory=set)
    """Names with more values than are tracked."""

    def assign(self, name: str, values: Iterable[str]) -> None:
        known = self.values.setdefault(name, [])
        for value in values:
            if value not in known:
                known.append(value)
        if len(known) > MOST_VALUES:
            known[:] = [UNKNOWN]
            self.overflowed.add(name)
        self.defined.add(name)

    def lookup(self, name: str) -> list[str] | None:
        """Every value that the variable may have; None if one is unknown or must not be shown."""
        if name in self.defined:
            return self.values[name]
        if name in self.values:
            return None
        if name in _FROM_THE_PLACE:
            return [_FROM_THE_PLACE[name]]
        if name in _NUMBERS:
            return [NUMBER]
        return [SOME] if name in _NO_SECRETS else None


# ------------------------------------------------------------------------------- the output of a command substitution

NEW_TEMP_FILE = f"{TEMP}/tmp.XXXXXXXXXX"  # noqa: S108 - in the session's own folder
"""The output of `mktemp`, with placeholders for its random letters."""
_PRINTS_PLAIN_TEXT = frozenset({"date", "whoami", "hostname", "uname", "arch", "seq", "id", "pwd", "nproc", "expr"})
_REVISIONS = frozenset({"merge-base", "rev-list", "rev-parse", "describe", "symbolic-ref"})
_HASH_FORMAT = lazy_pattern(r"--(?:format|pretty)=(?:t?format:)?%[hH]")


def printed_value(words: tuple[str, ...]) -> str:
    """The output of a command that is the only one in its substitution."""
    program = words[0]
    if any(map(MARKED.search, words)):
        return UNKNOWN
    if program == "git":
        return _printed_by_git(words[1:])
    if any(re.search(r"[*?\[\]\\]", word) for word in words):
        return UNKNOWN
    if words == ("pwd",):
        return PWD
    if words in (("mktemp",), ("mktemp", "-d")):
        return NEW_TEMP_FILE
    if (program == "wc" and all(word.startswith("-") for word in words[1:])) or program in _PRINTS_PLAIN_TEXT:
        return SOME
    return UNKNOWN


def _printed_by_git(arguments: tuple[str, ...]) -> str:
    if arguments == ("rev-parse", "--show-toplevel"):
        return TOPLEVEL
    command = arguments[0] if arguments else ""
    hashes = command == "log" and any(map(_HASH_FORMAT.fullmatch, arguments))
    names = hashes or command in _REVISIONS or arguments == ("branch", "--show-current")
    return NAME if names else UNKNOWN
