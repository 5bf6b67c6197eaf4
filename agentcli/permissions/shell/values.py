"""Values of shell variables, as far as the text of a command decides them.

A value is text in which characters of the private use area stand for what is known only when the command runs. No word
of a command can contain such a character: `words` refuses them. Assignments are collected without
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
REVISION = "\ue009"
"""Commit hashes or names of references, none of which begins with a dash; outside of quotes any number of words."""
STREAM = "\ue00a"
"""The path that `<(…)` becomes."""
NAME = "\ue00b"
"""Paths of files that may be read, none of which begins with a dash; outside of quotes any number of words."""
LISTED, LISTED_END = "\ue00c", "\ue00d"
"""Around the words of a command that lists files: the names that it prints. The place makes `NAME` of it."""
TOPLEVEL = "\ue00e"
"""What `git rev-parse --show-toplevel` prints: the folder of the repository, or nothing if git fails."""
NAMED_REVISION = "\ue00f"
"""What git prints for a reference; the place makes `REVISION` of it if no reference looks like an option."""

MARKED = re.compile("[\ue000-\ue00f]")
NOT_KNOWN = re.compile(f"[{UNKNOWN}{NUMBER}{SOME}{REVISION}{STREAM}{NAME}]")
OF_THE_PLACE = re.compile(f"[{PWD}{HOME}{TEMP}{MATCH}{LISTED}{TOPLEVEL}{NAMED_REVISION}]")
VARIES = re.compile(f"[{MATCH}{LISTED}{TOPLEVEL}{NAMED_REVISION}]")
"""Decided by files, which an earlier part of the command may change."""
ONE_WORD = re.compile(
    f"{MATCH}[^{MATCH_END}]*{MATCH_END}|{LISTED}[^{LISTED_END}]*{LISTED_END}"
    f"|[{NUMBER}{SOME}{PWD}{HOME}{TEMP}{UNQUOTED}{REVISION}{TOPLEVEL}{NAMED_REVISION}]"
)
"""What stays one word outside of quotes, or is marked as any number of words."""
UNDECIDED = re.compile(f"[{UNKNOWN}{NUMBER}{SOME}{MATCH}{REVISION}{STREAM}{NAME}{LISTED}{TOPLEVEL}{NAMED_REVISION}]")
"""What cannot be a part of a pattern or of the name of a file that is redirected to."""
SEPARATOR = "\x1f"
"""Between the words of a listing. No command contains control characters."""
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
    r"|[A-Z]\d?|OLD|NEW|FIRST|LAST|START|END|VALUE|VAR|REV|REF|VERSION|REPO|PKG|MODULE|OUTPUT"
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

NEW_TEMP_FILE = f"{TEMP}/tmp.XXXXXXXXXX"  # noqa: S108 - in the session's own folder
"""What `mktemp` prints, up to the letters that it chooses."""
_PRINTS_PLAIN_TEXT = frozenset({"date", "whoami", "hostname", "uname", "arch", "seq", "id", "pwd", "nproc", "expr"})
_REVISION_WORD = re.compile(r"(?!-)[A-Za-z0-9_./^~-]*(?:@(?:\{(?:\d{1,4}|u|upstream|push)\})?)?[A-Za-z0-9_./^~-]*")
_HISTORY_FLAG = re.compile(
    r"-\d{1,6}|-n\d{1,6}|--(?:all|branches|tags|remotes|merges|no-merges|first-parent|reverse)"
    r"|--(?:max-count|skip|since|after|until|before|author|committer|grep|diff-filter)=.*"
)
_HASH_FORMAT = re.compile(r"--(?:format|pretty)=(?:t?format:)?%[hH]")
_NAMING = {
    "describe": re.compile(r"--(?:tags|all|always|long|exact-match|first-parent)|--(?:abbrev|match|exclude)=.*"),
    "symbolic-ref": re.compile(r"--short|-q|--quiet"),
}


def printed_value(words: tuple[str, ...]) -> str:
    """What a command prints, for a substitution that consists of nothing else."""
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
    """Git repeats words that it does not understand, so all of them have to be plain."""
    command, words = (arguments[0] if arguments else ""), arguments[1:]
    flags = tuple(word for word in words if word.startswith("-"))
    plain = all(word.startswith("-") or _REVISION_WORD.fullmatch(word) for word in words)
    if arguments == ("rev-parse", "--show-toplevel"):
        return TOPLEVEL
    if arguments == ("branch", "--show-current"):
        return NAMED_REVISION
    if command == "log":
        return _printed_by_log(words)
    if not plain:
        return UNKNOWN
    match command:
        case "merge-base" if all(flag in ("-a", "--all", "--fork-point", "--octopus") for flag in flags):
            return REVISION
        case "rev-list" if all(map(_HISTORY_FLAG.fullmatch, flags)) or (flags == ("-n",) and words[:1] == ("-n",)):
            return REVISION
        case "rev-parse" if words and all(re.fullmatch(r"--(?:verify|quiet|short(?:=\d+)?)|-q", f) for f in flags):
            # What is no revision is printed as it is; it is a plain word and begins with no dash.
            return REVISION
        case "rev-parse" if flags == ("--abbrev-ref",):
            return NAMED_REVISION
        case "describe" | "symbolic-ref" if all(map(_NAMING[command].fullmatch, flags)):
            return NAMED_REVISION
        case "rev-parse" | "rev-list" | "describe" if not re.search("format|pretty|objects", " ".join(flags)):
            return SOME
        case _:
            return UNKNOWN


def _printed_by_log(words: tuple[str, ...]) -> str:
    """Hashes alone, unless a setting makes git add what gpg says about signatures."""
    before = words[: words.index("--")] if "--" in words else words
    flags = [word for word in before if word.startswith("-")]
    formats = [flag for flag in flags if _HASH_FORMAT.fullmatch(flag)]
    known = all(flag in formats or flag == "-n" or _HISTORY_FLAG.fullmatch(flag) for flag in flags)
    return NAMED_REVISION if formats and known else UNKNOWN
