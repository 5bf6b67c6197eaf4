"""Values of variables, substitutions and arithmetic in words, or the reason why they are unknown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agentcli.shell.parser.programs import prints_names
from agentcli.shell.parser.strict_parser import Scope, SimpleCommand
from agentcli.shell.parser.syntax_tree import descendants, shorten_source, text_of
from agentcli.shell.parser.words import (
    NAME,
    NUMBER,
    UNKNOWN,
    Expanded,
    Refused,
    Variables,
    check_visible,
    find_printed_value,
    read_expanded,
)

if TYPE_CHECKING:
    from tree_sitter import Node

    from agentcli.shell.parser.simple_commands import Cursor

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))")
_TRIMMED = re.compile(r"\$\{([A-Za-z_]\w*)(?:%%?|##?)[\w.*?/:,@+-]*\}")
_SETTERS = frozenset(
    "eval source . read mapfile readarray getopts declare typeset local let unset readonly export trap wait".split()  # noqa: SIM905
)
_OF_THE_SHELL = frozenset({"command", "builtin", "time", "exec", "!"})
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})


class Expansions:
    def __init__(self, walk: Cursor) -> None:
        self._walk = walk
        self.variables = Variables(walk.place)
        self._sets_unseen: bool | None = None

    def read(self, node: Node, *, assigned: bool) -> Expanded:
        outermost = {each.start_byte + _blanks(each): each for each in _outermost(node)}
        return read_expanded(text_of(node), node.start_byte, outermost, self._evaluate, assigned=assigned)

    def enter_loop(self, loop: Node) -> None:
        """Make variables uncertain that the loop assigns: their values apply in its next iteration."""
        nodes = list(descendants(loop))
        for name in self.variables.values:
            if any(_assigns(node, name) for node in nodes):
                self.variables.values[name] = UNKNOWN

    def _evaluate(self, node: Node) -> str:
        text = text_of(node).strip(" \t\n")
        if node.type == "command_substitution":
            return self._substitution(node, text)
        if node.type == "arithmetic_expansion":
            raise Refused("the arithmetic cannot be checked")
        if text in ("$?", "$#", "$$"):
            return NUMBER
        trimmed = _TRIMMED.fullmatch(text)
        if trimmed is not None:
            self._lookup(trimmed[1], node)
            return UNKNOWN
        found = _VARIABLE.fullmatch(text)
        if found is None:
            raise Refused(f"the value of {shorten_source(text)} is unknown")
        return self._lookup(found["braced"] or found["bare"], node)

    def _lookup(self, name: str, node: Node) -> str:
        if self._sets_unseen is None:
            self._sets_unseen = any(map(_sets_variables, descendants(self._walk.root)))
        value = self.variables.lookup(name)
        if value is None or self._sets_unseen:
            raise Refused(f"the value of {shorten_source(text_of(node).strip())} is unknown")
        return value

    def _substitution(self, node: Node, text: str) -> str:
        opened, closed = node.children[0], node.children[-1]
        if (text_of(opened).strip(), text_of(closed)) != ("$(", ")"):
            raise Refused(f"the command substitution {shorten_source(text)} cannot be checked")
        walk = self._walk
        outer, walk.position = walk.position, opened.end_byte
        count = len(walk.steps)
        concurrent, walk.concurrent = walk.concurrent, False
        with walk.nested("subshell"):
            walk.statements(node, node.children[1:-1])
        walk.skip(closed.start_byte, wide=True)
        walk.position, walk.concurrent = outer, concurrent
        return self._find_printed(walk.steps[count:])

    def stream(self, node: Node) -> None:
        """Read `<(…)`. It runs concurrently with the command that reads it, so it must not write files."""
        opened, closed = node.children[0], node.children[-1]
        walk = self._walk
        if text_of(opened) != "<(" or text_of(closed) != ")" or walk.position != node.start_byte:
            raise Refused("the process substitution cannot be checked")
        walk.position = opened.end_byte
        count = len(walk.steps)
        concurrent, walk.concurrent = walk.concurrent, True
        with walk.nested("subshell"):
            walk.statements(node, node.children[1:-1])
        walk.skip(closed.start_byte, wide=True)
        walk.position, walk.concurrent = closed.end_byte, concurrent
        for step in walk.steps[count:]:
            writes = isinstance(step, SimpleCommand) and (
                "tee" in step.words or any(each.kind == "write" for each in step.redirections)
            )
            if writes:
                raise Refused("the process substitution writes a file")

    def _find_printed(self, steps: list[SimpleCommand | Scope]) -> str:
        inside = steps[1:-1]
        parts = [step for step in inside if isinstance(step, SimpleCommand)]
        if len(parts) != len(inside) or not parts or any(part.joint != "|" for part in parts[1:]):
            return UNKNOWN
        last = parts[-1]
        if prints_names(parts):
            return NAME
        if last.globs:
            return UNKNOWN
        redirections = [each for each in last.redirections if each.kind != "harmless"]
        if len(parts) == 1 and last.words == ("cat",) and [each.kind for each in redirections] == ["text"]:
            value = redirections[0].target.rstrip("\n")
            if value != UNKNOWN:
                check_visible(value)
            return value
        return find_printed_value(last.words, self._walk.place if len(parts) == 1 else {})


def _blanks(node: Node) -> int:
    """Number of blanks before an expansion in a string, which the grammar includes in its node."""
    text = node.text or b""
    return len(text) - len(text.lstrip(b" \t\n"))


def _outermost(node: Node) -> list[Node]:
    found: list[Node] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.is_named and current.type in _EXPANSIONS:
            found.append(current)
        else:
            waiting += current.children
    return found


def _assigns(node: Node, name: str) -> bool:
    match node.type:
        case "variable_assignment":
            return text_of(node).partition("=")[0] == name
        case "for_statement":
            return text_of(node.children[1]) == name
        case "command":
            words = [text_of(child) for child in node.children]
            return "read" in words and name in words
        case _:
            return False


def _sets_variables(node: Node) -> bool:
    """Whether a command may set variables in a way that is not tracked (`eval`, `builtin read x`, `printf -v`)."""
    if node.type in ("declaration_command", "unset_command"):
        return not text_of(node).startswith("export ")
    if node.type != "command":
        return False
    words = [re.sub(r"['\"\\]", "", text_of(child)) for child in node.children if child.type != "variable_assignment"]
    if words[:1] == ["printf"]:
        return words[1:2] != [] and words[1].startswith("-")
    if words[:1] == ["read"]:
        return False
    while words and words[0] in _OF_THE_SHELL | {"-p"}:
        words = words[1:]
    return bool(words) and (words[0] in _SETTERS or (words[0] == "printf" and words[1:2] == ["-v"]))
