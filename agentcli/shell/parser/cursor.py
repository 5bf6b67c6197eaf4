"""Position of the strict parser in a command; every byte must be consumed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agentcli.shell.parser.expansions import Expansions
from agentcli.shell.parser.strict_parser import CommandStep, Joint, Scope
from agentcli.shell.parser.syntax_tree import shortened, text_of
from agentcli.shell.parser.words import Refused

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
    "concatenation": "it has a word that cannot be checked",
}


def refusal(node: Node) -> Refused:
    clause = _REASONS.get(node.type, "its syntax cannot be checked")
    if node.type in ("simple_expansion", "expansion", "command_substitution", "variable_assignment"):
        clause += f" {shortened(text_of(node))}"
    return Refused(clause)


# A line may only be continued after a blank: otherwise the shell would join two words into one.
_GAP = re.compile(rb"(?:[ \t]|(?<=[ \t\n])\\\n)*")
_WIDE_GAP = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")


@dataclass
class Cursor:
    source: bytes
    root: Node
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
        joint, started, defined, looped = self.joint, self.started, set(variables.defined), self.looped
        self.joint, self.started, self.looped = "", False, looped or kind == "loop"
        self.steps.append(Scope(kind, begins=True))
        yield
        if self.joint not in ("", ";") or not self.started:
            raise Refused("it is incomplete")
        self.steps.append(Scope(kind, begins=False))
        self.joint, self.started, self.looped = joint, started, looped
        variables.defined = defined

    def gap_before(self, node: Node) -> bytes:
        return self.source[self.position : node.start_byte]

    def statements(self, node: Node, children: Iterable[Node] | None = None) -> None:
        """Read a list of commands; see `walk`."""
        raise NotImplementedError

    def statement(self, node: Node) -> None:
        """Read one command of a list; see `walk`."""
        raise NotImplementedError
