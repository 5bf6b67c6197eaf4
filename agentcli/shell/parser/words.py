"""Parse one word of a shell command: quotes, escapes, patterns and expansions.

Independent of the grammar, which is used only to find the end of an expansion.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.shell.parser.values import (
    MARKED,
    OF_THE_PLACE,
    ONE_WORD,
    PLAIN_TEXT,
    SOME,
    UNDECIDED,
    UNKNOWN,
    UNQUOTED,
)

if TYPE_CHECKING:
    from tree_sitter import Node


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
_MOST_ALTERNATIVES = 32


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
        if len(found) >= _MOST_ALTERNATIVES:
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
