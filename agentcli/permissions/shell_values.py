"""Values of shell variables, as far as the text of a command decides them.

A value is text in which characters of the private use area stand for what is known only when the command runs. No word
of a command can contain such a character by itself: `shell_words` refuses them. Assignments are collected without
regard to the control flow, so a variable has every value that any earlier assignment could have given it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

UNKNOWN = "\ue000"
"""Any text, as one word."""
NUMBER = "\ue001"
"""An integer, possibly negative."""
SOME = "\ue002"
"""Text without pattern characters; outside of quotes any number of words."""
PWD, HOME, TEMP = "\ue003", "\ue004", "\ue005"
"""`$PWD`, `$HOME` and `$TMPDIR` of the place where the command runs."""
UNQUOTED = "\ue006"
"""Before a value of the place that is not quoted: it must be one plain word."""
MATCH, MATCH_END = "\ue007", "\ue008"
"""Around a pattern: one of the names that it matches."""

MARKED = re.compile("[\ue000-\ue008]")
NOT_KNOWN = re.compile(f"[{UNKNOWN}{NUMBER}{SOME}]")
OF_THE_PLACE = re.compile(f"[{PWD}{HOME}{TEMP}{MATCH}]")
PLAIN_TEXT = re.compile(r"[A-Za-z0-9_\-./:,+@%=^#]*")
INTEGER = re.compile(rf"-?\d{{1,18}}|{NUMBER}")

_MOST_VALUES = 16

_FROM_THE_PLACE = {"PWD": PWD, "HOME": HOME, "TMPDIR": TEMP}
_NUMBERS = frozenset({"UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "SHLVL"})
_NO_SECRETS = frozenset({"USER", "LOGNAME", "SHELL", "LANG", "TERM", "PATH", "HOSTNAME", "OSTYPE", "HOSTTYPE"}) | {
    *("VIRTUAL_ENV", "BASH_VERSION", "MACHTYPE", "COLUMNS", "LINES"),
}
"""Variables of the environment that may be shown. Any other could hold a key."""

_OWN_NAME = re.compile(
    r"(?!npm_|auto_resume$|histchars$)[a-z_][a-z0-9_]{0,30}"
    r"|(?:SRC|DST|OUT|TEST|BASE|ROOT|TARGET|LOG)_?(?:FILE|FILES|DIR|DIRS|PATH|NAME)?"
    r"|FILES?|DIRS?|NAMES?|COUNT|TOTAL|MSG|MESSAGE|PATTERN|BRANCH|COMMIT|HASH|SHA|RESULT|STATUS|LINE|WORD|ITEM|KEY_NAME"
)


def is_own_name(name: str) -> bool:
    """Whether no program obeys a variable of this name, so that setting it concerns only the command itself."""
    return _OWN_NAME.fullmatch(name) is not None and not name.endswith("_proxy")


@dataclass
class Variables:
    values: dict[str, list[str]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    """Names that have certainly been assigned at this point, so that the environment's value is gone."""

    def assign(self, name: str, values: Iterable[str]) -> None:
        known = self.values.setdefault(name, [])
        for value in values:
            if value not in known:
                known.append(value)
        if len(known) > _MOST_VALUES:
            known[:] = [UNKNOWN]
        self.defined.add(name)

    def lookup(self, name: str) -> list[str] | None:
        """Every value that the variable may have; None if one of them is not for showing or not known at all."""
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

_PRINTS_PLAIN_TEXT = frozenset({"date", "whoami", "hostname", "uname", "arch", "seq", "id", "pwd", "nproc", "expr"})
_PLAIN_GIT = frozenset({"rev-parse", "rev-list", "describe", "merge-base"})


def printed_value(words: tuple[str, ...]) -> str:
    """What a command prints, for a substitution that consists of nothing else."""
    program = words[0]
    if any(re.search(r"[*?\[\]\\\ue000-\ue008]", word) for word in words):
        return UNKNOWN
    if words == ("pwd",):
        return PWD
    if (program == "wc" and all(word.startswith("-") for word in words[1:])) or program in _PRINTS_PLAIN_TEXT:
        return SOME
    if program == "git" and (words[1:2] == ("branch",) and words[2:] == ("--show-current",)):
        return SOME
    return SOME if program == "git" and words[1:2] and words[1] in _PLAIN_GIT else UNKNOWN
