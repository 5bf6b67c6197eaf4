"""Values of shell variables, as far as the command text determines them.

In a value, characters of the private use area stand for parts known only at run time. No word of a command can contain
such a character: `words` refuses them. Assignments are collected regardless of control flow, so a variable has every
value that any earlier assignment could have given it.

Words are parsed independently of the grammar, which is used only to find the end of an expansion.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.parser.syntax_tree import MAX_VALUES

if TYPE_CHECKING:
    from tree_sitter import Node

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
        if len(known) > MAX_VALUES:
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


class Refused(Exception):
    """Reason why a command cannot be parsed strictly."""


_PIECE = re.compile(
    r"(?P<bare>[A-Za-z0-9_\-./:,+@%=^~#]+)"
    r"|(?P<glob>[*?\[\]])"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`!]|\\[^\n]|!(?=["\s=]))*)"'
    r"|\\(?P<escaped>[!-/:-@\[-`{-~ ])"
    # Without a comma or two dots it is not a brace expansion: {} and stash@{0}.
    r"|(?P<braces>\{[A-Za-z0-9_\-]*\})"
    r"|(?P<letter>[^\x00-\x7f])"
)
_IN_QUOTES = re.compile(r'(?:[^"\\$`!]|\\[^\n]|!(?=["\s=]))+')
_TILDE = re.compile(r"(?:\A|[:=])~")
_HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_LETTERS = frozenset("LMN")
_SPECIAL_IN_PATTERNS = re.compile(r"[*?\[\]\\]")
_MAX_ALTERNATIVES = 32


def read_word(source: str) -> tuple[str, bool]:
    """The value of a word, and whether the shell would expand it to file names. Raises `Refused`."""
    if source in ("!", "!="):
        return source, False
    out: list[str] = []
    glob = quoted_star = False
    position = 0
    while position < len(source):
        found = _PIECE.match(source, position)
        if found is None:
            raise Refused(_odd(source[position]))
        piece, is_glob, quoted = _literal_piece(found, position, out)
        glob = glob or is_glob
        quoted_star = quoted_star or (quoted and _SPECIAL_IN_PATTERNS.search(piece) is not None)
        out.append(piece)
        position = found.end()
    if glob and quoted_star:
        # Without quotes, literal and pattern characters could not be distinguished.
        raise Refused("part of the pattern is quoted")
    return "".join(out), glob


def _literal_piece(found: re.Match[str], position: int, before: list[str]) -> tuple[str, bool, bool]:
    """The text of a piece, whether it makes the word a pattern, and whether it is quoted."""
    kind, piece = found.lastgroup, found.group(found.lastgroup or 0)
    if kind == "bare":
        # The shell expands a tilde only in these places; elsewhere it is literal (HEAD~1).
        if _TILDE.search(piece) if position == 0 or before[-1:] == [""] else re.search("[:=]~", piece):
            raise Refused("the tilde cannot be checked")
        if piece.startswith("#") and position == 0:
            raise Refused("its syntax cannot be checked")
    elif kind == "double":
        piece = re.sub(r'\\([\\"$`])', r"\1", piece)
    elif kind == "letter" and unicodedata.category(piece)[0] not in _LETTERS:
        raise Refused(f"it contains the character U+{ord(piece):04X}")
    if kind in ("single", "double") and not piece.isascii():
        check_visible(piece)
    return piece, kind == "glob" and piece != "]", kind in ("single", "double", "escaped")


def check_visible(text: str) -> None:
    for character in text:
        if unicodedata.category(character) in _HIDDEN and character not in "\n\t":
            raise Refused(f"it contains the character U+{ord(character):04X}")


def _odd(character: str) -> str:
    match character:
        case "$":
            return "a variable or substitution cannot be checked"
        case "`":
            return "the command substitution cannot be checked"
        case "{" | "}":
            return "the brace expansion cannot be checked"
        case '"':
            return "the text in double quotes cannot be checked"
        case _:
            return "its syntax cannot be checked"


# ----------------------------------------------------------------------------------------------- words with expansions


@frozen
class Word:
    """One word after all expansions. `glob`: the shell would replace it by file names."""

    text: str
    glob: bool = False


Alternative = tuple[Word, ...]
"""A possible expansion of a source word: usually one word, but also none or several."""


@frozen
class _Piece:
    values: tuple[str, ...]
    quoted: bool
    expanded: bool = False
    glob: bool = False


def read_expanded(
    source: str, start: int, expansions: dict[int, Node], evaluate: Callable[[Node], list[str]], *, assigned: bool
) -> list[Alternative]:
    """All possible expansions of a word with variables and substitutions.

    `expansions`: the outermost expansions by the byte offset of their `$` or backquote; `start`: the word's byte
    offset. An assignment is not split and its patterns are not expanded.
    """
    pieces = _pieces(source, start, expansions, evaluate)
    if sum(1 for _ in pieces if _.expanded) != len(expansions):
        raise Refused("its syntax cannot be checked")
    found: list[Alternative] = []
    for values in product(*(piece.values for piece in pieces)):
        if len(found) >= _MAX_ALTERNATIVES:
            raise Refused("its variables have too many possible values to check")
        found.append(_assembled(pieces, values, assigned=assigned))
    return list(dict.fromkeys(found))


def _pieces(
    source: str, start: int, expansions: dict[int, Node], evaluate: Callable[[Node], list[str]]
) -> list[_Piece]:
    pieces: list[_Piece] = []
    texts: list[str] = []
    position, in_quotes = 0, False
    while position < len(source):
        node = expansions.get(start + len(source[:position].encode()))
        character = source[position]
        if node is not None and character in "$`":
            pieces.append(_Piece(tuple(evaluate(node)), in_quotes, expanded=True))
            texts.append("$")
            position = len(source.encode()[: node.end_byte - start].decode())
        elif character == '"':
            in_quotes = not in_quotes
            pieces.append(_Piece(("",), quoted=True))
            texts.append("")
            position += 1
        elif in_quotes:
            found = _IN_QUOTES.match(source, position)
            if found is None:
                raise Refused(_odd(character))
            text = re.sub(r'\\([\\"$`])', r"\1", found.group())
            check_visible(text)
            pieces.append(_Piece((text,), quoted=True))
            texts.append(text)
            position = found.end()
        else:
            found = _PIECE.match(source, position)
            if found is None:
                raise Refused(_odd(character))
            text, glob, quoted = _literal_piece(found, position, texts)
            pieces.append(_Piece((text,), quoted, glob=glob))
            texts.append(text)
            position = found.end()
    if in_quotes:
        raise Refused("the text in double quotes cannot be checked")
    return pieces


def _assembled(pieces: list[_Piece], values: tuple[str, ...], *, assigned: bool) -> Alternative:
    text, glob, there, odd = "", False, False, False
    for piece, value in zip(pieces, values, strict=True):
        if not piece.expanded:
            text += value
            there = there or piece.quoted or bool(value)
            glob = glob or piece.glob
            odd = odd or (piece.quoted and _SPECIAL_IN_PATTERNS.search(value) is not None)
        elif piece.quoted or assigned:
            text += value if assigned else value.replace(SOME, UNKNOWN)
            odd = odd or _SPECIAL_IN_PATTERNS.search(value) is not None or UNKNOWN in value
        elif len(pieces) == 1 and not MARKED.search(value):
            return _split(value)
        else:
            text += _unquoted(value)
            there = there or bool(value)
    if assigned:
        return (Word(text),)
    if glob and (odd or UNDECIDED.search(text)):
        raise Refused("part of the pattern is unknown")
    return (Word(text, glob),) if there else ()


def _split(value: str) -> Alternative:
    words = value.split()
    if not all(map(PLAIN_TEXT.fullmatch, words)):
        raise Refused("an unquoted variable can expand to several words")
    return tuple(map(Word, words))


def _unquoted(value: str) -> str:
    """An unquoted value that stays one word, or is marked as any number of words."""
    if not PLAIN_TEXT.fullmatch(ONE_WORD.sub("", value)):
        raise Refused("an unquoted variable or substitution can expand to several words")
    return OF_THE_PLACE.sub(lambda found: UNQUOTED + found.group(), value)
