"""The strict walk: a command as plain words joined by `&& || ; |` and line feeds, or the reason why it is not (S6).

Proofs of harmlessness and allow rules stand on what comes out of here, so nothing may be guessed. The grammar gives
the structure, and every byte is accounted for a second time: each word is read by rules of its own, and between words
there may be blanks only. Where the grammar and bash disagree, one of the two checks refuses.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from agentcli.core.frozen import frozen
from agentcli.core.shell import has_control_characters
from agentcli.permissions.shelltree import Unparsable, parse, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Joint = Literal["", "&&", "||", ";", "|"]


@frozen
class Redirection:
    kind: Literal["harmless", "write", "read"]
    target: str
    text: str


@frozen
class SimpleCommand:
    """One part of a compound command."""

    words: tuple[str, ...]
    """Without quotes."""
    sources: tuple[str, ...]
    """The same words as they were written."""
    globs: frozenset[int] = frozenset()
    """Indexes of the words that the shell would expand to file names."""
    joint: Joint = ""
    """What stands before it."""
    feeds: bool = False
    """Its output is the input of the next part."""
    assignments: tuple[tuple[str, str], ...] = ()
    redirections: tuple[Redirection, ...] = ()

    @property
    def text(self) -> str:
        """With single blanks and without redirections: what rules are about."""
        return " ".join(self.sources)

    @property
    def piped(self) -> bool:
        return self.joint == "|"


class NotPlain(str):
    """Why a command is not plain: a clause that goes after `because`."""

    __slots__ = ()


@functools.lru_cache(maxsize=128)
def plain_commands(command: str) -> tuple[SimpleCommand, ...] | NotPlain:
    """The parts of a plain command. Remembered, because one call has its command judged several times."""
    if has_control_characters(command):
        return NotPlain("it contains control characters")
    root = parse(command)
    if isinstance(root, Unparsable):
        return NotPlain(root)
    walk = _Walk(command.encode())
    try:
        walk.statements(root)
        return walk.finished()
    except _Refused as refused:
        return NotPlain(str(refused))


class _Refused(Exception):
    pass


_REASONS = {
    "command_substitution": "of the command substitution",
    "process_substitution": "of the process substitution",
    "simple_expansion": "of the variable",
    "expansion": "of the variable",
    "arithmetic_expansion": "of the arithmetic",
    "ansi_c_string": "of the $'…' string",
    "translated_string": 'of the $"…" string',
    "brace_expression": "of the brace expansion",
    "variable_assignment": "of the assignment",
    "variable_assignments": "of the assignments",
    "subshell": "of the subshell",
    "compound_statement": "of the { … } group",
    "function_definition": "it defines a function",
    "if_statement": "of the if statement",
    "for_statement": "of the for loop",
    "c_style_for_statement": "of the for loop",
    "while_statement": "of the loop",
    "case_statement": "of the case statement",
    "negated_command": "of the negation",
    "heredoc_redirect": "of the here-document",
    "herestring_redirect": "of the here-string",
    "declaration_command": "it sets variables",
    "unset_command": "it unsets variables",
    "test_command": "of the [[ … ]] or (( … )) expression",
    "concatenation": "of a word that is not plain",
}


def _refusal(node: Node) -> _Refused:
    clause = _REASONS.get(node.type, "it is not made of plain words")
    shown = text_of(node)
    if node.type in ("simple_expansion", "expansion", "command_substitution", "variable_assignment"):
        clause += f" {shown if len(shown) <= 60 else shown[:57] + '…'}"
    return _Refused(clause)


# A line that goes on does so after a blank: otherwise the shell would join two words into one.
_GAP = re.compile(rb"(?:[ \t]|(?<=[ \t\n])\\\n)*")
_WIDE_GAP = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
_JOINTS: dict[str, Joint] = {"&&": "&&", "||": "||", ";": ";", "|": "|", "\n": ";"}
_REDIRECTION = re.compile(r"(?P<from>\d*|&)(?P<operator>>>|>\||>&|<&|<>|>|<)[ \t]*")
_PROGRAM = re.compile(r"[A-Za-z0-9_\-./+]+|:")


@dataclass
class _Walk:
    source: bytes
    parts: list[SimpleCommand] = field(default_factory=list)
    joint: Joint = ""
    position: int = 0
    """How far the source is accounted for."""

    def finished(self) -> tuple[SimpleCommand, ...]:
        self._skip(len(self.source), wide=True)
        if not self.parts:
            raise _Refused("it contains no command")
        following = [part.piped for part in self.parts[1:]] + [self.joint == "|"]
        if self.joint not in ("", ";"):
            raise _Refused("it is not complete")
        return tuple(
            replace(part, feeds=feeds) if feeds else part for part, feeds in zip(self.parts, following, strict=True)
        )

    def statements(self, node: Node) -> None:
        """A program, a list or a pipeline."""
        for child in node.children:
            if not child.is_named:
                self._operator(child)
            elif child.type == "comment":
                self._comment(child)
            else:
                self._statement(child)

    def _statement(self, node: Node) -> None:
        match node.type:
            case "list" | "pipeline":
                self.statements(node)
            case "command":
                self._begin(node)
                self._append(self._command(node))
            case "redirected_statement":
                self._redirected(node)
            case "test_command" if self.source[node.start_byte : node.start_byte + 2] not in (b"[[", b"(("):
                self._begin(node)
                self._append(self._test(node))
            case _:
                raise _refusal(node)

    def _append(self, part: SimpleCommand) -> None:
        self.parts.append(part)
        self.joint = ""

    def _begin(self, node: Node) -> None:
        """Between two commands there has to be an operator, or a line feed where the grammar shows none."""
        between = self.source[self.position : node.start_byte]
        self._skip(node.start_byte, wide=True)
        if self.parts and not self.joint:
            if b"\n" not in between.replace(b"\\\n", b""):
                raise _Refused("it is not made of plain words")
            self.joint = ";"

    def _operator(self, node: Node) -> None:
        kind = text_of(node)
        if kind == "&":
            raise _Refused("it runs something in the background")
        if kind == ";;" or kind.strip(" \t\n") not in ("&&", "||", ";", "|", ""):
            raise _Refused(f"of {kind.strip()}")
        self._skip(node.start_byte, wide=True)
        self.position = node.end_byte
        joint = _JOINTS.get(kind.strip(" \t") or "\n", ";")
        if joint == ";" and self.joint in ("&&", "||", "|"):
            if kind.strip():
                raise _Refused("it is not complete")
            return
        if joint != ";" and (self.joint not in ("", ";") or not self.parts):
            raise _Refused("it is not complete")
        if self.parts:
            self.joint = joint
        elif kind.strip():
            raise _Refused("it is not complete")

    def _comment(self, node: Node) -> None:
        text = text_of(node)
        before = self.source[node.start_byte - 1 : node.start_byte]
        after = self.source[node.end_byte : node.end_byte + 1]
        if (
            not text.startswith("#")
            or "\n" in text
            or before not in (b"", b" ", b"\t", b"\n")
            or after not in (b"", b"\n")
        ):
            raise _Refused("it is not made of plain words")
        self._skip(node.start_byte, wide=True)
        self.position = node.end_byte

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            raise _Refused(f"of the redirection {text_of(node)}")
        found: list[Redirection] = []
        for child in node.children:
            if child.id == body.id:
                self._statement(child)
            else:
                found.append(self._redirection(child))
        # In the grammar it belongs to the whole list; in bash to the last command.
        last = self.parts[-1]
        self.parts[-1] = replace(last, redirections=(*last.redirections, *found))

    def _redirection(self, node: Node) -> Redirection:
        if node.type != "file_redirect":
            raise _refusal(node)
        text = text_of(node)
        found = _REDIRECTION.match(text)
        if found is None:
            raise _Refused(f"of the redirection {text}")
        # In `a2>b` the digit belongs to the word.
        self._skip(node.start_byte, blank=found["from"] not in ("", "&") and self.position > 0)
        destination = text[found.end() :]
        target, glob = read_word(destination)
        if glob or not target:
            raise _Refused(f"of the redirection {text}")
        self.position = node.end_byte
        source, operator = found["from"], found["operator"]
        if operator in (">&", "<&"):
            if source not in ("", "0", "1", "2") or destination not in ("1", "2") or operator == "<&":
                raise _Refused(f"of the redirection {text}")
            return Redirection("harmless", target, text)
        if source not in ("", "0", "1", "2", "&") or operator == "<>" or (operator == "<" and source not in ("", "0")):
            raise _Refused(f"of the redirection {text}")
        if destination == "/dev/null":
            return Redirection("harmless", target, text)
        return Redirection("read" if operator == "<" else "write", target, text)

    def _command(self, node: Node) -> SimpleCommand:
        words: list[str] = []
        sources: list[str] = []
        globs: set[int] = set()
        assignments: list[tuple[str, str]] = []
        redirections: list[Redirection] = []
        for child in node.children:
            if child.type == "file_redirect":
                redirections.append(self._redirection(child))
                continue
            self._skip(child.start_byte, blank=child.start_byte > node.start_byte)
            text = text_of(child)
            if child.type == "variable_assignment" and not words:
                assignments.append(self._assignment(child))
                self.position = child.end_byte
                continue
            if child.type == "command_name":
                if not _PROGRAM.fullmatch(text) or "=" in text:
                    raise _Refused("the program's name is not a plain word")
            elif not child.is_named and text not in ("!", "=", "=="):
                raise _Refused("it is not made of plain words")
            self._check_kind(child)
            value, glob = read_word(text)
            if glob:
                globs.add(len(words))
            words.append(value)
            sources.append(text)
            self.position = child.end_byte
        if not words:
            raise _Refused("of the assignment")
        return SimpleCommand(
            tuple(words),
            tuple(sources),
            frozenset(globs),
            self.joint,
            assignments=tuple(assignments),
            redirections=tuple(redirections),
        )

    def _assignment(self, node: Node) -> tuple[str, str]:
        name, equals, written = text_of(node).partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise _refusal(node)
        for child in node.children:
            if child.is_named and child.type != "variable_name":
                self._check_kind(child)
        value, glob = read_word(written) if written else ("", False)
        if glob:
            raise _refusal(node)
        return name, value

    def _check_kind(self, node: Node) -> None:
        """Nothing in an argument but words and quoted literals."""
        waiting = [node]
        while waiting:
            current = waiting.pop()
            if current.is_named and current.type not in _LITERALS:
                raise _refusal(current)
            waiting += current.children

    def _test(self, node: Node) -> SimpleCommand:
        """`[ … ]`: the grammar makes an expression of it; for the shell they are words like any others."""
        words: list[str] = []
        sources: list[str] = []
        for leaf in _test_leaves(node):
            if self.position != leaf.start_byte and not words:
                raise _Refused("it is not made of plain words")
            self._skip(leaf.start_byte, blank=bool(words))
            text = text_of(leaf)
            if leaf.is_named and leaf.type != "test_operator":
                self._check_kind(leaf)
            value, glob = (text, False) if text in ("[", "]", "!", "=", "!=", "==") else read_word(text)
            if glob:
                raise _Refused("of the pattern in [ … ]")
            words.append(value)
            sources.append(text)
            self.position = leaf.end_byte
        if len(words) < 2 or words[-1] != "]" or self.position != node.end_byte:
            raise _refusal(node)
        return SimpleCommand(tuple(words), tuple(sources), frozenset(), self.joint)

    def _skip(self, end: int, *, wide: bool = False, blank: bool = False) -> None:
        between = self.source[self.position : end]
        gap = (_WIDE_GAP if wide else _GAP).fullmatch(between)
        if gap is None or (blank and not between):
            raise _Refused("it is not made of plain words")
        self.position = end


_LITERALS = frozenset(
    {"word", "number", "raw_string", "string", "string_content", "concatenation", "command_name", "extglob_pattern"}
)


def _test_leaves(node: Node) -> list[Node]:
    leaves: list[Node] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        nested = current.type in ("test_command", "unary_expression", "binary_expression", "negation_expression")
        if nested:
            waiting.extend(reversed(current.children))
        else:
            leaves.append(current)
    return leaves


# ------------------------------------------------------------------------------------------------------- one word

_PIECE = re.compile(
    r"(?P<bare>[A-Za-z0-9_\-./:,+@%=^~#]+)"
    r"|(?P<glob>[*?\[\]])"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`!]|\\[^\n]|!(?=["\s=]))*)"'
    r"|\\(?P<escaped>[!-/:-@\[-`{-~ ])"
    # Without a comma or two dots it is no brace expansion: {} and stash@{0}.
    r"|(?P<braces>\{[A-Za-z0-9_\-]*\})"
    r"|(?P<letter>[^\x00-\x7f])"
)
_TILDE = re.compile(r"(?:\A|[:=])~")
_HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_LETTERS = frozenset("LMN")


def read_word(source: str) -> tuple[str, bool]:
    """What the shell makes of a word, and whether it would expand it to file names. Raises `_Refused`."""
    if source in ("!", "!="):
        return source, False
    out: list[str] = []
    glob = quoted_star = False
    position = 0
    while position < len(source):
        found = _PIECE.match(source, position)
        if found is None:
            raise _Refused(_odd(source[position]))
        kind, piece = found.lastgroup, found.group(found.lastgroup or 0)
        if kind == "bare":
            # The shell expands a tilde at these places only; elsewhere it is a letter (HEAD~1).
            if _TILDE.search(piece) if position == 0 or out[-1:] == [""] else re.search("[:=]~", piece):
                raise _Refused("of the tilde")
            if piece.startswith("#") and position == 0:
                raise _Refused("it is not made of plain words")
        elif kind == "glob":
            glob = glob or piece != "]"
        elif kind == "double":
            piece = re.sub(r'\\([\\"$`])', r"\1", piece)
        elif kind == "letter" and unicodedata.category(piece)[0] not in _LETTERS:
            raise _Refused(f"of the character U+{ord(piece):04X}")
        if kind in ("single", "double", "escaped"):
            quoted_star = quoted_star or re.search(r"[*?\[\]\\]", piece) is not None
        if kind in ("single", "double") and not piece.isascii():
            _check_visible(piece)
        out.append(piece)
        position = found.end()
    if glob and quoted_star:
        # Without the quotes nobody could tell any more which of its characters stand for themselves.
        raise _Refused("of the pattern, a part of which is quoted")
    return "".join(out), glob


def _check_visible(text: str) -> None:
    for character in text:
        if unicodedata.category(character) in _HIDDEN and character not in "\n\t":
            raise _Refused(f"of the character U+{ord(character):04X}")


def _odd(character: str) -> str:
    match character:
        case "$":
            return "of a variable or a substitution"
        case "`":
            return "of the command substitution"
        case "{" | "}":
            return "of the brace expansion"
        case '"':
            return "of what is in the double quotes"
        case _:
            return "it is not made of plain words"
