"""Words of a command, and values of shell variables as far as the command text determines them.

In a value, characters of the private use area stand for parts known only at run time. No word of a command can contain
such a character: `check_visible` refuses them. A variable has one value; where it may have several, it is unknown.

Words are parsed independently of the grammar, which is used only to find the end of an expansion.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\ue000"
"""Any text, as one word."""
NUMBER = "\ue001"
"""An integer, possibly negative."""
SOME = "\ue002"
"""Text without pattern characters; any number of words if unquoted."""
STREAM = "\ue00a"
"""The path that the shell substitutes for `<(…)`."""
NAME = "\ue00b"
"""Names of files or revisions that a command or pattern of the same text gives; any number of words if unquoted. Where
a sandbox contains the command, read-only programs may have any."""
TOPLEVEL = "git rev-parse --show-toplevel"
"""This command's output is one of the known values of the place, and used only if it is a whole word."""
MARKED = lazy_pattern("[\ue000-\ue00f]")
_ONE_WORD = lazy_pattern(f"[{NUMBER}{SOME}{NAME}]")
"""Values that stay one word if unquoted, or are marked as any number of words."""
PLAIN_TEXT = lazy_pattern(r"[A-Za-z0-9_\-./:,+@%=^#]*")
INTEGER = lazy_pattern(rf"-?\d{{1,18}}|{NUMBER}")

_FROM_THE_PLACE = frozenset({"PWD", "HOME", "TMPDIR"})
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


@frozen
class VariableState:
    defined: frozenset[str]
    values: Mapping[str, str]
    count: int
    """Number of assignments before it."""


@dataclass
class Variables:
    place: Mapping[str, str]
    """Values of `PWD`, `HOME` and `TMPDIR`, as far as they are known."""
    values: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    """Names certainly assigned by now, so that the environment's value no longer applies."""
    assigned: list[tuple[str, str]] = field(default_factory=list)
    """Every assignment so far, in the order of the text."""

    def assign(self, name: str, value: str) -> None:
        self.values[name] = value
        self.defined.add(name)
        self.assigned.append((name, value))

    def lookup(self, name: str) -> str | None:
        """The value of a variable, if need be `UNKNOWN`; None if it may be one of the environment's that must not be
        shown."""
        # The shell sets `_` to the last word of each command.
        if name == "_":
            return None
        if name in self.defined:
            return self.values[name]
        if name in self.values:
            return None
        if name in _FROM_THE_PLACE:
            return self.place.get(name, UNKNOWN)
        if name in _NUMBERS:
            return NUMBER
        return SOME if name in _NO_SECRETS else None

    def state(self) -> VariableState:
        return VariableState(frozenset(self.defined), dict(self.values), len(self.assigned))

    def return_to(self, state: VariableState) -> None:
        """Make all assignments since this state uncertain, also those that a later one may have replaced."""
        self.defined = set(state.defined)
        self.values |= {name: state.values[name] for name in self.defined}
        for name, value in self.assigned[state.count :]:
            if name in self.defined and value != self.values[name]:
                self.values[name] = UNKNOWN


# ------------------------------------------------------------------------------- the output of a command substitution

_NEW_TEMP_FILE = "tmp.XXXXXXXXXX"
"""The name that `mktemp` makes, with placeholders for its random letters."""
_PRINTS_PLAIN_TEXT = frozenset({"date", "whoami", "hostname", "uname", "arch", "seq", "id", "pwd", "nproc", "expr"})
_REVISIONS = frozenset({"merge-base", "rev-list", "rev-parse", "describe", "symbolic-ref"})
_HASH_FORMAT = lazy_pattern(r"--(?:format|pretty)=(?:t?format:)?%[hH]")


def find_printed_value(words: tuple[str, ...], place: Mapping[str, str]) -> str:
    """The output of the last command in a substitution, if it depends on nothing before it."""
    program = words[0]
    if any(map(MARKED.search, words)):
        return UNKNOWN
    if program == "git":
        return _find_printed_by_git(words[1:])
    if any(re.search(r"[*?\[\]\\]", word) for word in words):
        return UNKNOWN
    if words == ("pwd",):
        return place.get("PWD", SOME)
    if words in (("mktemp",), ("mktemp", "-d")) and "TMPDIR" in place:
        return f"{place['TMPDIR']}/{_NEW_TEMP_FILE}"
    if (program == "wc" and all(word.startswith("-") for word in words[1:])) or program in _PRINTS_PLAIN_TEXT:
        return SOME
    return UNKNOWN


def _find_printed_by_git(arguments: tuple[str, ...]) -> str:
    command = arguments[0] if arguments else ""
    hashes = command == "log" and any(map(_HASH_FORMAT.fullmatch, arguments))
    paths = any(word.startswith(("--show-", "--git-", "--absolute-")) for word in arguments)
    names = hashes or (command in _REVISIONS and not paths) or arguments == ("branch", "--show-current")
    return NAME if names else UNKNOWN


class Refused(Exception):
    """Reason why a command cannot be parsed strictly."""


_PIECE = re.compile(
    r"(?P<bare>[A-Za-z0-9_\-./:,+@%=^~#]+)"
    r"|(?P<glob>[*?\[\]])"
    r"|'(?P<single>[^']*)'"
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


def read_word(source: str) -> tuple[str, bool]:
    """The value of a literal word, and whether the shell would expand it to file names. Raises `Refused`."""
    if source in ("!", "!="):
        return source, False
    words = read_expanded(source, 0, {}, _refuse_expansion, assigned=False)
    return (words[0].text, words[0].glob) if words else ("", False)


def _refuse_expansion(_node: Node) -> str:
    raise Refused("a variable or substitution cannot be checked")


def _literal_piece(found: re.Match[str], position: int, before: list[str]) -> tuple[str, bool, bool]:
    """The text of a piece, whether it makes the word a pattern, and whether it is quoted."""
    kind, piece = found.lastgroup, found.group(found.lastgroup or 0)
    if kind == "bare":
        # The shell expands a tilde only in these places; elsewhere it is literal (HEAD~1).
        if _TILDE.search(piece) if position == 0 or before[-1:] == [""] else re.search("[:=]~", piece):
            raise Refused("the tilde cannot be checked")
        if piece.startswith("#") and position == 0:
            raise Refused("its syntax cannot be checked")
    elif kind == "letter" and unicodedata.category(piece)[0] not in _LETTERS:
        raise Refused(f"it contains the character U+{ord(piece):04X}")
    if kind == "single":
        check_visible(piece)
    return piece, kind == "glob" and piece != "]", kind in ("single", "escaped")


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


Expanded = tuple[Word, ...]
"""What a source word expands to: usually one word, but also none or several."""


@frozen
class _Piece:
    value: str
    quoted: bool
    expanded: bool = False
    glob: bool = False


def read_expanded(
    source: str, start: int, expansions: dict[int, Node], evaluate: Callable[[Node], str], *, assigned: bool
) -> Expanded:
    """The expansion of a word with variables and substitutions.

    `expansions`: the outermost expansions by the byte offset of their `$` or backquote; `start`: the word's byte
    offset. An assignment is not split and its patterns are not expanded.
    """
    pieces = _pieces(source, start, expansions, evaluate)
    if sum(piece.expanded for piece in pieces) != len(expansions):
        raise Refused("its syntax cannot be checked")
    text, glob, there, odd = "", False, False, False
    for piece in pieces:
        value = piece.value
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
        elif not PLAIN_TEXT.fullmatch(_ONE_WORD.sub("", value)):
            raise Refused("an unquoted variable or substitution can expand to several words")
        else:
            text += value
            there = there or bool(value)
    if assigned:
        return (Word(text),)
    if glob and (odd or MARKED.search(text)):
        raise Refused("part of the pattern is quoted or unknown")
    return (Word(text, glob),) if there else ()


def _split(value: str) -> Expanded:
    words = value.split()
    if not all(map(PLAIN_TEXT.fullmatch, words)):
        raise Refused("an unquoted variable can expand to several words")
    return tuple(map(Word, words))


def _pieces(source: str, start: int, expansions: dict[int, Node], evaluate: Callable[[Node], str]) -> list[_Piece]:
    pieces: list[_Piece] = []
    texts: list[str] = []
    position, in_quotes = 0, False
    while position < len(source):
        node = expansions.get(start + len(source[:position].encode()))
        character = source[position]
        if node is not None and character in "$`":
            pieces.append(_Piece(evaluate(node), in_quotes, expanded=True))
            texts.append("$")
            position = len(source.encode()[: node.end_byte - start].decode())
        elif character == '"':
            in_quotes = not in_quotes
            pieces.append(_Piece("", quoted=True))
            texts.append("")
            position += 1
        elif in_quotes:
            found = _IN_QUOTES.match(source, position)
            if found is None:
                raise Refused(_odd(character))
            text = re.sub(r'\\([\\"$`])', r"\1", found.group())
            check_visible(text)
            pieces.append(_Piece(text, quoted=True))
            texts.append(text)
            position = found.end()
        else:
            found = _PIECE.match(source, position)
            if found is None:
                raise Refused(_odd(character))
            text, glob, quoted = _literal_piece(found, position, texts)
            pieces.append(_Piece(text, quoted, glob=glob))
            texts.append(text)
            position = found.end()
    if in_quotes:
        raise Refused("the text in double quotes cannot be checked")
    return pieces
