"""Position of the strict parser in a command, and simple commands: words, assignments, `read`, `export` and tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agentcli.shell.parser.expansions import Expansions
from agentcli.shell.parser.programs import harmless_assignment
from agentcli.shell.parser.strict_parser import CommandStep, Joint, Redirection, Scope, SimpleCommand
from agentcli.shell.parser.syntax_tree import shorten_source, text_of
from agentcli.shell.parser.words import (
    MARKED,
    STREAM,
    TOPLEVEL,
    UNKNOWN,
    Expanded,
    Refused,
    Word,
    is_own_name,
    read_word,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

_REASONS = {
    "command_substitution": "the command substitution cannot be checked:",
    "process_substitution": "the process substitution cannot be checked",
    "simple_expansion": "the value of this variable is unknown:",
    "expansion": "the value of this variable is unknown:",
    "arithmetic_expansion": "the arithmetic cannot be checked",
    "ansi_c_string": "the $'…' string cannot be checked",
    "translated_string": 'the $"…" string cannot be checked',
    "brace_expression": "the brace expansion cannot be checked",
    "variable_assignment": "the assignment cannot be checked:",
    "variable_assignments": "the assignments cannot be checked",
    "function_definition": "it defines a function",
    "c_style_for_statement": "the for loop cannot be checked",
    "heredoc_redirect": "the here-document cannot be checked",
    "declaration_command": "it sets variables",
    "unset_command": "it unsets variables",
    "test_command": "the [[ … ]] or (( … )) expression cannot be checked",
    "compound_statement": "the (( … )) expression cannot be checked",
    "herestring_redirect": "the here-string cannot be checked",
    "concatenation": "it has a word that cannot be checked",
}


def refusal(node: Node) -> Refused:
    clause = _REASONS.get(node.type, "its syntax cannot be checked")
    if node.type in ("simple_expansion", "expansion", "command_substitution", "variable_assignment"):
        clause += f" {shorten_source(text_of(node))}"
    return Refused(clause)


# A line may only be continued after a blank: otherwise the shell would join two words into one.
_GAP = re.compile(rb"(?:[ \t]|(?<=[ \t\n])\\\n)*")
_WIDE_GAP = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")


@dataclass
class Cursor:
    source: bytes
    root: Node
    place: Mapping[str, str]
    """See `Variables.place`."""
    steps: list[CommandStep] = field(default_factory=list)
    joint: Joint = ""
    position: int = 0
    """Number of bytes consumed."""
    started: bool = False
    """Whether the current command list already has a command."""
    concurrent: bool = False
    leading: tuple[int, bool] | None = None
    """A list whose last command alone belongs to a pipeline, and whether the others run concurrently."""
    looped: bool = False

    def __post_init__(self) -> None:
        self.expansions = Expansions(self)

    def skip(self, end: int, *, wide: bool = False, blank: bool = False) -> None:
        between = self.source[self.position : end]
        gap = (_WIDE_GAP if wide else _GAP).fullmatch(between)
        if gap is None or (blank and not between):
            raise Refused("its syntax cannot be checked")
        self.position = end

    def token(self, node: Node, *expected: str) -> None:
        text = text_of(node)
        if text not in expected:
            raise Refused("its syntax cannot be checked")
        self.skip(node.start_byte, wide=True)
        self.position = node.end_byte

    @contextmanager
    def nested(self, kind: Literal["subshell", "branch", "loop"]) -> Iterator[None]:
        """A nested command list: its assignments are uncertain afterwards, and it must be complete."""
        variables = self.expansions.variables
        joint, started, before, looped = self.joint, self.started, variables.state(), self.looped
        self.joint, self.started, self.looped = "", False, looped or kind == "loop"
        self.steps.append(Scope(kind, begins=True))
        yield
        if self.joint not in ("", ";") or not self.started:
            raise Refused("it is incomplete")
        self.steps.append(Scope(kind, begins=False))
        self.joint, self.started, self.looped = joint, started, looped
        variables.return_to(before)

    def gap_before(self, node: Node) -> bytes:
        return self.source[self.position : node.start_byte]

    def statements(self, node: Node, children: Iterable[Node] | None = None) -> None:
        """Read a list of commands; see `walk`."""
        raise NotImplementedError

    def statement(self, node: Node) -> None:
        """Read one command of a list; see `walk`."""
        raise NotImplementedError


_PROGRAM = re.compile(r"[A-Za-z0-9_\-./+]+|:")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACES = re.compile(
    r"([A-Za-z0-9_\-./:=*?]*)\{([A-Za-z0-9_\-./*?]*(?:,[A-Za-z0-9_\-./*?]*)+)\}([A-Za-z0-9_\-./:=*?]*)"
)
"""One brace expansion without quotes, ranges or nested braces."""
_LITERALS = frozenset(
    {"word", "number", "raw_string", "string", "string_content", "concatenation", "command_name", "extglob_pattern"}
)
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})


class SimpleCommands(Cursor):
    def redirection(self, node: Node) -> Redirection:
        """Read one redirection; see `redirections`."""
        raise NotImplementedError

    def word(self, node: Node, *, assigned: bool = False) -> Expanded:
        """The expansion of one source word."""
        if node.type == "process_substitution" and not assigned:
            self.expansions.stream(node)
            return (Word(STREAM),)
        braces = _BRACES.fullmatch(text_of(node)) if not assigned else None
        if braces is not None and self._is_literal(node):
            texts = (f"{braces[1]}{choice}{braces[3]}" for choice in braces[2].split(","))
            return tuple(Word(text, re.search(r"[*?]", text) is not None) for text in texts if text)
        if self._is_literal(node):
            value, glob = read_word(text_of(node))
            return (Word(value, glob and not assigned),)
        expanded = self.expansions.read(node, assigned=assigned)
        if TOPLEVEL in self.place and text_of(node) == f'"$({TOPLEVEL})"':
            return (Word(self.place[TOPLEVEL]),)
        temp = self.place.get("TMPDIR")
        if temp and any(temp in word.text and ".." in word.text for word in expanded):
            raise Refused("the folders above the temp folder are unknown")
        return expanded

    def _is_literal(self, node: Node) -> bool:
        """Whether a word consists only of literals; raises for anything but words, quoted literals and expansions."""
        literal = True
        waiting = [node]
        while waiting:
            current = waiting.pop()
            if current.is_named and current.type in _EXPANSIONS:
                literal = False
                continue
            if current.is_named and current.type not in _LITERALS:
                raise refusal(current)
            waiting += current.children
        return literal

    def _command(self, node: Node) -> SimpleCommand:
        found: list[Expanded] = []
        sources: list[str] = []
        assignments: list[tuple[str, str]] = []
        redirections: list[Redirection] = []
        joint = self.joint
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                redirections.append(self.redirection(child))
                continue
            self.skip(child.start_byte, blank=child.start_byte > node.start_byte)
            text = text_of(child)
            if child.type == "variable_assignment" and not found:
                assignments.append(self._prefix(child))
                self.position = child.end_byte
                continue
            if child.type == "command_name":
                if not _PROGRAM.fullmatch(text) or "=" in text:
                    raise Refused("the name of its program cannot be checked")
            elif not child.is_named and text not in ("!", "=", "=="):
                raise Refused("its syntax cannot be checked")
            found.append(self.word(child))
            sources.append(_show(text, found[-1], child))
            self.position = child.end_byte
        if not found:
            raise Refused("the assignment cannot be checked")
        words, globs = _flatten(found)
        if words[0] == "read":
            self._read(words, assignments)
            assignments = []
        return SimpleCommand(
            words,
            tuple(sources),
            globs,
            joint,
            assignments=tuple(assignments),
            redirections=tuple(redirections),
            concurrent=self.concurrent,
            looped=self.looped,
            expanded=next((index for index, each in enumerate(found) if _is_expanded(each)), None),
        )

    def _read(self, command: tuple[str, ...], assignments: list[tuple[str, str]]) -> None:
        """Handle `read`, which sets variables to unknown input. An `IFS` for this command alone has no other effect."""
        words = list(command[1:])
        while words and words[0] in ("-r", "-d"):
            del words[: 2 if words[0] == "-d" else 1]
        if any(name != "IFS" for name, _value in assignments) or not all(map(is_own_name, words)) or not words:
            raise Refused("the arguments of read cannot be checked")
        for name in words:
            self.expansions.variables.assign(name, UNKNOWN)

    def _prefix(self, node: Node) -> tuple[str, str]:
        """An assignment for one command only."""
        name, written = _assignment(node)
        for child in node.children:
            if child.is_named and child.type != "variable_name" and not self._is_literal(child):
                raise refusal(node)
        value, glob = read_word(written) if written else ("", False)
        if glob:
            raise refusal(node)
        return name, value

    def _assignments(self, node: Node) -> None:
        """Assignments of shell variables, without a command."""
        for each in [node] if node.type == "variable_assignment" else node.children:
            name, written = _assignment(each)
            self.skip(each.start_byte, blank=each.start_byte > node.start_byte)
            value = each.child_by_field_name("value")
            if written and (value is None or text_of(value) != written):
                raise refusal(each)
            self.position = each.start_byte + len(name) + 1
            text = self.word(value, assigned=True)[0].text if value is not None and written else ""
            if not is_own_name(name) and not harmless_assignment(name, text):
                raise refusal(each)
            self.expansions.variables.assign(name, text)
            self.position = each.end_byte
        self.joint, self.started = "", True

    def _export(self, node: Node) -> SimpleCommand:
        """Read `export CI=1` as `:`, if the same assignment before a command would be harmless."""
        self.token(node.children[0], "export")
        for each in node.children[1:]:
            self.skip(each.start_byte, blank=True)
            name, value = self._prefix(each) if each.type == "variable_assignment" else ("", "")
            if not harmless_assignment(name, value):
                raise refusal(node)
            self.expansions.variables.assign(name, value)
            self.position = each.end_byte
        return SimpleCommand((":",), (text_of(node),), joint=self.joint, concurrent=self.concurrent, looped=self.looped)

    def _test(self, node: Node) -> SimpleCommand:
        """Read `[ … ]` or `[[ … ]]`: an expression in the grammar, but words for `read_only`, which checks them."""
        leaves = _test_leaves(node)
        is_double = text_of(leaves[0]) == "[["
        found: list[Expanded] = []
        sources: list[str] = []
        for leaf in leaves:
            text, is_operand = text_of(leaf), leaf.is_named and leaf.type != "test_operator"
            beside_parenthesis = is_double and (text == ")" or sources[-1:] == ["("])
            self.skip(leaf.start_byte, blank=bool(found) and not beside_parenthesis)
            if leaf.type == "regex":
                if not re.fullmatch(r"[\w.^*+?\[\]/:,\\-]+\$?", text):
                    raise refusal(node)
                words: Expanded = (Word(text),)
            elif text in ("[", "]", "!", "=", "!=", "==") or (is_double and not is_operand):
                words = (Word(text),)
            elif is_operand:
                # `[[` does not split words or expand file names; patterns match text.
                words = self.word(leaf, assigned=is_double)
            else:
                words = (Word(read_word(text)[0]),)
            if any(word.glob for word in words):
                raise Refused("the pattern in [ … ] cannot be checked")
            found.append(words)
            sources.append(text)
            self.position = leaf.end_byte
        if (sources[0], sources[-1]) not in (("[", "]"), ("[[", "]]")) or self.position != node.end_byte:
            raise refusal(node)
        flat, _globs = _flatten(found)
        return SimpleCommand(flat, tuple(sources), joint=self.joint, concurrent=self.concurrent, looped=self.looped)


def _is_expanded(words: Expanded) -> bool:
    """Whether a source word became several, or one that the command text alone does not determine."""
    return len(words) != 1 or MARKED.search(words[0].text) is not None


def _show(source: str, words: Expanded, node: Node) -> str:
    """The word as rules and the user see it: its value if certain, else as written."""
    if node.type in ("word", "number", "raw_string", "command_name") or ("$" not in source and "`" not in source):
        return source
    return source if _is_expanded(words) or words[0].glob else shlex.quote(words[0].text)


def _flatten(found: list[Expanded]) -> tuple[tuple[str, ...], frozenset[int]]:
    """All words, and the indexes of those that are patterns."""
    flat = [word for expanded in found for word in expanded]
    return tuple(word.text for word in flat), frozenset(index for index, word in enumerate(flat) if word.glob)


def _assignment(node: Node) -> tuple[str, str]:
    name, equals, written = text_of(node).partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise refusal(node)
    return name, written


def _test_leaves(node: Node) -> list[Node]:
    leaves: list[Node] = []
    waiting = [node]
    nested = (
        "test_command",
        "unary_expression",
        "binary_expression",
        "negation_expression",
        "parenthesized_expression",
    )
    while waiting:
        current = waiting.pop()
        if current.type in nested:
            waiting.extend(reversed(current.children))
        else:
            leaves.append(current)
    return leaves
