"""The strict walk over the syntax tree of a command; see `shell`, which holds what comes out of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from agentcli.permissions.shell import Joint, Redirection, Scope, SimpleCommand, Step, Variant
from agentcli.permissions.shell_expansions import Expansions
from agentcli.permissions.shell_values import MARKED, MATCH, MATCH_END, NUMBER, UNKNOWN, is_own_name
from agentcli.permissions.shell_words import Alternative, Refused, Word, check_visible, read_word
from agentcli.permissions.shelltree import text_of
from agentcli.permissions.wrappers import harmless_assignment

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Refused", "Walk"]

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
    "function_definition": "it defines a function",
    "c_style_for_statement": "of the for loop",
    "heredoc_redirect": "of the here-document",
    "declaration_command": "it sets variables",
    "unset_command": "it unsets variables",
    "test_command": "of the [[ … ]] or (( … )) expression",
    "compound_statement": "of the (( … )) expression",
    "concatenation": "of a word that is not plain",
}


def refusal(node: Node) -> Refused:
    clause = _REASONS.get(node.type, "it is not made of plain words")
    shown = text_of(node)
    if node.type in ("simple_expansion", "expansion", "command_substitution", "variable_assignment"):
        clause += f" {shown if len(shown) <= 60 else shown[:57] + '…'}"
    return Refused(clause)


# A line that goes on does so after a blank: otherwise the shell would join two words into one.
_GAP = re.compile(rb"(?:[ \t]|(?<=[ \t\n])\\\n)*")
_WIDE_GAP = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
_JOINTS: dict[str, Joint] = {"&&": "&&", "||": "||", ";": ";", "|": "|", "\n": ";"}
_REDIRECTION = re.compile(r"(?P<from>\d*|&)(?P<operator>>>|>\||>&|<&|<>|>|<)[ \t]*")
_PROGRAM = re.compile(r"[A-Za-z0-9_\-./+]+|:")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPOUND = frozenset(
    {"subshell", "compound_statement", "if_statement", "for_statement", "while_statement", "case_statement"}
)
_MOST_VARIANTS = 32
_LITERALS = frozenset(
    {"word", "number", "raw_string", "string", "string_content", "concatenation", "command_name", "extglob_pattern"}
)
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})


@dataclass
class Walk:
    source: bytes
    root: Node
    steps: list[Step] = field(default_factory=list)
    joint: Joint = ""
    position: int = 0
    """How far the source is accounted for."""
    started: bool = False
    """The list of commands that is being read has a command already."""
    concurrent: bool = False
    looped: bool = False

    def __post_init__(self) -> None:
        self.expansions = Expansions(self)

    def finished(self) -> tuple[Step, ...]:
        self.skip(len(self.source), wide=True)
        if not any(isinstance(step, SimpleCommand) for step in self.steps):
            raise Refused("it contains no command")
        if self.joint not in ("", ";"):
            raise Refused("it is not complete")
        for index, step in enumerate(self.steps[1:]):
            before = self.steps[index]
            if isinstance(step, SimpleCommand) and step.piped and isinstance(before, SimpleCommand):
                self.steps[index] = replace(before, feeds=True)
        return tuple(self.steps)

    # ------------------------------------------------------------------------------------------------- lists

    def statements(self, node: Node, children: Iterable[Node] | None = None) -> None:
        """A program, a list, a pipeline, or what stands between two keywords."""
        for child in node.children if children is None else children:
            if not child.is_named:
                self._operator(child)
            elif child.type == "comment":
                self._comment(child)
            else:
                self._statement(child)

    def _statement(self, node: Node) -> None:
        match node.type:
            case "list":
                self._list(node)
            case "pipeline":
                self._pipeline(node)
            case "command":
                self._begin(node)
                self._append(self._command(node))
            case "redirected_statement":
                self._redirected(node)
            case "negated_command":
                self._begin(node)
                self._token(node.children[0], "!")
                self.skip(node.children[1].start_byte, blank=True)
                joint, self.joint, self.started = self.joint, "", False
                for child in node.children[1:]:
                    self._statement(child)
                self.joint, self.started = "", True
                self._check_negated(joint, node)
            case "test_command":
                self._begin(node)
                double = self.source[node.start_byte : node.start_byte + 2] == b"[["
                self._append(self._double_test(node) if double else self._test(node))
            case "variable_assignment" | "variable_assignments":
                self._begin(node)
                self._assignments(node)
            case "declaration_command":
                self._begin(node)
                self._append(self._export(node))
            case kind if kind in _COMPOUND:
                self._begin(node)
                self._compound(node)
            case _:
                raise refusal(node)

    @staticmethod
    def _check_negated(joint: Joint, node: Node) -> None:
        if joint == "|":
            raise refusal(node)

    def _list(self, node: Node) -> None:
        """After `||` nothing is certain that a command before it would have set."""
        variables = self.expansions.variables
        before: set[str] | None = None
        for child in _operands(node):
            self.statements(node, [child])
            if before is None:
                before = set(variables.defined)
            elif not child.is_named and text_of(child) == "||":
                variables.defined = set(before)
        if before is not None:
            variables.defined = before

    def _pipeline(self, node: Node) -> None:
        variables = self.expansions.variables
        defined, concurrent = set(variables.defined), self.concurrent
        # What runs beside what is plain only where every part is a command without substitutions.
        self.concurrent = concurrent or any(
            child.is_named and (child.type != "command" or b"$(" in (child.text or b"") or b"`" in (child.text or b""))
            for child in node.children
        )
        for child in node.children:
            self.statements(node, [child])
            # Each part of a pipeline is a shell of its own.
            variables.defined = set(defined)
        self.concurrent = concurrent

    def _append(self, part: SimpleCommand) -> None:
        self.steps.append(part)
        self.joint = ""
        self.started = True

    def _begin(self, node: Node) -> None:
        """Between two commands there has to be an operator, or a line feed where the grammar shows none."""
        between = self.source[self.position : node.start_byte]
        self.skip(node.start_byte, wide=True)
        if self.started and not self.joint:
            if b"\n" not in between.replace(b"\\\n", b""):
                raise Refused("it is not made of plain words")
            self.joint = ";"

    def _operator(self, node: Node) -> None:
        kind = text_of(node)
        if kind == "&":
            raise Refused("it runs something in the background")
        if kind == ";;" or kind.strip(" \t\n") not in ("&&", "||", ";", "|", ""):
            raise Refused(f"of {kind.strip()}")
        self.skip(node.start_byte, wide=True)
        self.position = node.end_byte
        joint = _JOINTS.get(kind.strip(" \t") or "\n", ";")
        if joint == ";" and self.joint in ("&&", "||", "|"):
            if kind.strip():
                raise Refused("it is not complete")
            return
        if joint != ";" and (self.joint not in ("", ";") or not self.started):
            raise Refused("it is not complete")
        if self.started:
            self.joint = joint
        elif kind.strip():
            raise Refused("it is not complete")

    def _comment(self, node: Node) -> None:
        text = text_of(node)
        before = self.source[node.start_byte - 1 : node.start_byte]
        after = self.source[node.end_byte : node.end_byte + 1]
        if (
            not text.startswith("#")
            or "\n" in text
            or before not in (b"", b" ", b"\t", b"\n", b";")
            or after not in (b"", b"\n")
        ):
            raise Refused("it is not made of plain words")
        self.skip(node.start_byte, wide=True)
        self.position = node.end_byte

    def skip(self, end: int, *, wide: bool = False, blank: bool = False) -> None:
        between = self.source[self.position : end]
        gap = (_WIDE_GAP if wide else _GAP).fullmatch(between)
        if gap is None or (blank and not between):
            raise Refused("it is not made of plain words")
        self.position = end

    def _token(self, node: Node, *expected: str) -> None:
        text = text_of(node)
        if text not in expected:
            raise Refused("it is not made of plain words")
        self.skip(node.start_byte, wide=True)
        self.position = node.end_byte

    # ------------------------------------------------------------------------------------- loops, branches, groups

    def _compound(self, node: Node) -> None:
        self.joint = ""
        match node.type:
            case "subshell":
                self._body(node, "(", ")", "subshell")
            case "compound_statement":
                if text_of(node.children[0]) != "{":
                    raise refusal(node)
                self._body(node, "{", "}", "branch")
            case "if_statement":
                self._if(node)
            case "for_statement":
                self._for(node)
            case "while_statement":
                self._while(node)
            case _:
                self._case(node)
        self.joint, self.started = "", True

    @contextmanager
    def nested(self, kind: Literal["subshell", "branch", "loop"]) -> Iterator[None]:
        """A command list of its own: what it defines is not certain after it, and it must be complete."""
        variables = self.expansions.variables
        joint, started, defined, looped = self.joint, self.started, set(variables.defined), self.looped
        self.joint, self.started, self.looped = "", False, looped or kind == "loop"
        self.steps.append(Scope(kind, begins=True))
        yield
        if self.joint not in ("", ";") or not self.started:
            raise Refused("it is not complete")
        self.steps.append(Scope(kind, begins=False))
        self.joint, self.started, self.looped = joint, started, looped
        variables.defined = defined

    def _body(self, node: Node, opened: str, closed: str, kind: Literal["subshell", "branch", "loop"]) -> None:
        self._token(node.children[0], opened)
        with self.nested(kind):
            self.statements(node, node.children[1:-1])
            if closed in ("}", "done") and self.joint != ";" and b"\n" not in self._gap_before(node.children[-1]):
                raise Refused("it is not complete")
        self._token(node.children[-1], closed)

    def _gap_before(self, node: Node) -> bytes:
        return self.source[self.position : node.start_byte]

    def _if(self, node: Node) -> None:
        """`if`, `elif` and `else` alike: keywords with a command list after each of them."""
        keyword: Node | None = None
        waiting: list[Node] = []
        for child in node.children:
            if child.type in ("if", "then", "elif", "else", "fi") and not child.is_named:
                self._clause(node, keyword, waiting, child)
                keyword, waiting = child, []
            elif child.type in ("elif_clause", "else_clause"):
                self._clause(node, keyword, waiting, child)
                keyword, waiting = None, []
                self._if(child)
            else:
                waiting.append(child)
        if node.type == "if_statement":
            if keyword is None or keyword.type != "fi" or waiting:
                raise refusal(node)
            self._token(keyword, "fi")
        else:
            self._clause(node, keyword, waiting, None)

    def _clause(self, node: Node, keyword: Node | None, children: list[Node], following: Node | None) -> None:
        if keyword is None:
            if children:
                raise refusal(node)
            return
        self._token(keyword, "if", "then", "elif", "else")
        with self.nested("branch"):
            self.statements(node, children)
            ended = self.joint == ";" or following is None or b"\n" in self._gap_before(following)
            if not ended:
                raise Refused("it is not complete")

    def _for(self, node: Node) -> None:
        children = node.children
        body = children[-1]
        if len(children) < 4 or body.type != "do_group" or text_of(children[0]) != "for":
            raise refusal(node)
        self._token(children[0], "for")
        name = text_of(children[1])
        if not is_own_name(name) or children[1].type != "variable_name":
            raise Refused(f"of the assignment {name}")
        self.skip(children[1].start_byte, blank=True)
        self.position = children[1].end_byte
        self._token(children[2], "in")
        values: list[str] = []
        ended = False
        for child in children[3:-1]:
            if not child.is_named:
                self._token(child, ";")
                ended = True
                continue
            if ended:
                raise refusal(node)
            self.skip(child.start_byte, blank=True)
            for alternative in self._loop_words(child):
                values += (f"{MATCH}{word.text}{MATCH_END}" if word.glob else word.text for word in alternative)
            self.position = child.end_byte
        if not ended and b"\n" not in self._gap_before(body):
            raise refusal(node)
        self.skip(body.start_byte, wide=True)
        defined = set(self.expansions.variables.defined)
        self.expansions.assign(name, values)
        self._body(body, "do", "done", "loop")
        self.expansions.variables.defined = defined

    def _loop_words(self, node: Node) -> list[Alternative]:
        if node.type in ("brace_expression", "concatenation") and re.fullmatch(r"\{\d+\.\.\d+\}", text_of(node)):
            return [(Word(NUMBER),)]
        return self.word(node)

    def _while(self, node: Node) -> None:
        """`while read …` only: any other condition may never end."""
        body = node.children[-1]
        condition = [child for child in node.children[1:-1] if child.is_named]
        if body.type != "do_group" or text_of(node.children[0]) != "while" or len(condition) != 1:
            raise Refused("of the loop")
        name = condition[0].child_by_field_name("name") if condition[0].type == "command" else None
        if name is None or text_of(name) != "read":
            raise Refused("of the loop, which may not end")
        self._token(node.children[0], "while")
        variables = self.expansions.variables
        before = set(variables.defined)
        with self.nested("loop"):
            self.statements(node, node.children[1:-1])
            if self.joint != ";" and b"\n" not in self._gap_before(body):
                raise Refused("it is not complete")
            defined = set(variables.defined)
        variables.defined = defined
        self.skip(body.start_byte, wide=True)
        self._body(body, "do", "done", "loop")
        variables.defined = before

    def _case(self, node: Node) -> None:
        subject, keyword = node.children[1], node.children[2]
        self._token(node.children[0], "case")
        self.skip(subject.start_byte, blank=True)
        self.word(subject, assigned=True)
        self.position = subject.end_byte
        self._token(keyword, "in")
        items = node.children[3:-1]
        for item in items:
            if item.type == "comment":
                self._comment(item)
                continue
            if item.type != "case_item":
                raise refusal(node)
            self._case_item(item)
        self._token(node.children[-1], "esac")

    def _case_item(self, item: Node) -> None:
        closing = next((index for index, child in enumerate(item.children) if child.type == ")"), None)
        if closing is None or text_of(item.children[-1]) != ";;":
            raise Refused("of the case statement")
        for child in item.children[: closing + 1]:
            if child.is_named:
                if not re.fullmatch(r"""[\w.*?\[\]/,:+@%-]+|'[^']*'|"[^"$`\\!]*\"""", text_of(child)):
                    raise Refused("of the case statement")
                self.skip(child.start_byte, wide=True)
                self.position = child.end_byte
            else:
                self._token(child, "(", "|", ")")
        with self.nested("branch"):
            self.statements(item, item.children[closing + 1 : -1])
            self.started = True
        self._token(item.children[-1], ";;")

    # ------------------------------------------------------------------------------------------- redirections

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            raise Refused(f"of the redirection {text_of(node)}")
        compound = body.type in _COMPOUND
        concurrent, self.concurrent = self.concurrent, self.concurrent or compound
        found: list[Redirection] = []
        count = len(self.steps)
        for child in node.children:
            if child.id == body.id:
                self._statement(child)
            elif child.type == "heredoc_redirect":
                found += self._heredoc(child)
            else:
                found.append(self._redirection(child))
        self.concurrent = concurrent
        last = self.steps[-1] if self.steps else None
        if compound:
            text = " ".join(redirection.text for redirection in found)
            self.steps.append(SimpleCommand((":",), (text.strip(),), redirections=tuple(found), concurrent=concurrent))
        elif isinstance(last, SimpleCommand) and len(self.steps) > count:
            # In the grammar it belongs to the whole list; in bash to the last command.
            self.steps[-1] = replace(last, redirections=(*last.redirections, *found))
        else:
            raise Refused(f"of the redirection {text_of(node)}")

    def _redirection(self, node: Node) -> Redirection:
        if node.type == "herestring_redirect":
            return self._herestring(node)
        if node.type != "file_redirect":
            raise refusal(node)
        text = text_of(node)
        found = _REDIRECTION.match(text)
        if found is None:
            raise Refused(f"of the redirection {text}")
        # In `a2>b` the digit belongs to the word.
        self.skip(node.start_byte, blank=found["from"] not in ("", "&") and self.position > 0)
        destination = text[found.end() :]
        target = self._target(node, destination, text)
        self.position = node.end_byte
        source, operator = found["from"], found["operator"]
        if operator in (">&", "<&"):
            if source not in ("", "0", "1", "2") or destination not in ("1", "2") or operator == "<&":
                raise Refused(f"of the redirection {text}")
            return Redirection("harmless", target, text)
        if source not in ("", "0", "1", "2", "&") or operator == "<>" or (operator == "<" and source not in ("", "0")):
            raise Refused(f"of the redirection {text}")
        if destination == "/dev/null":
            return Redirection("harmless", target, text)
        return Redirection("read" if operator == "<" else "write", target, text)

    def _target(self, node: Node, destination: str, text: str) -> str:
        if "$" not in destination:
            target, glob = read_word(destination)
            if glob or not target:
                raise Refused(f"of the redirection {text}")
            return target
        child = node.child_by_field_name("destination")
        alternatives = self.word(child) if child is not None and text_of(child) == destination else []
        if len(alternatives) != 1 or len(alternatives[0]) != 1 or alternatives[0][0].glob:
            raise Refused(f"of the redirection {text}")
        target = alternatives[0][0].text
        if not target or re.search(f"[{UNKNOWN}{NUMBER}\ue002{MATCH}]", target):
            raise Refused(f"of the redirection {text}")
        return target

    def _herestring(self, node: Node) -> Redirection:
        operator, word = node.children[0], node.children[-1]
        if len(node.children) != 2 or text_of(operator) != "<<<":
            raise Refused("of the here-string")
        self.skip(operator.start_byte)
        self.position = operator.end_byte
        self.skip(word.start_byte)
        self.word(word, assigned=True)
        self.position = word.end_byte
        return Redirection("text", UNKNOWN, text_of(node))

    def _heredoc(self, node: Node) -> list[Redirection]:
        """Its end is looked for here once more, line by line, as the shell does."""
        operator, start, *rest = node.children
        kinds = [child.type for child in rest]
        written = text_of(start)
        quoted = re.fullmatch(r"'(\w+)'|\"(\w+)\"", written)
        name = (quoted[1] or quoted[2]) if quoted else written
        if text_of(operator) not in ("<<", "<<-") or not re.fullmatch(r"\w+", name):
            raise refusal(node)
        if kinds[-2:] != ["heredoc_body", "heredoc_end"] or any(kind != "file_redirect" for kind in kinds[:-2]):
            if kinds != ["heredoc_end"]:
                raise refusal(node)
        self.skip(operator.start_byte)
        self.position = operator.end_byte
        self.skip(start.start_byte)
        self.position = start.end_byte
        found = [self._redirection(child) for child in rest if child.type == "file_redirect"]
        line_end = self.source.find(b"\n", self.position)
        self.skip(line_end)
        text, end = _heredoc_text(self.source, line_end + 1, name.encode(), strip_tabs=text_of(operator) == "<<-")
        if end != node.end_byte or text is None or (not quoted and re.search(r"[$`\\]", text)):
            raise refusal(node)
        check_visible(text)
        self.position = end
        return [*found, Redirection("text", text, f"<<{written}")]

    # ----------------------------------------------------------------------------------------- simple commands

    def word(self, node: Node, *, assigned: bool = False) -> list[Alternative]:
        """What one word of the source may become."""
        if self._is_literal(node):
            value, glob = read_word(text_of(node))
            return [(Word(value, glob and not assigned),)]
        return self.expansions.read(node, assigned=assigned)

    def _is_literal(self, node: Node) -> bool:
        """Nothing in it but words, quoted literals and, if not literal, expansions."""
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
        found: list[list[Alternative]] = []
        sources: list[str] = []
        assignments: list[tuple[str, str]] = []
        redirections: list[Redirection] = []
        joint = self.joint
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                redirections.append(self._redirection(child))
                continue
            self.skip(child.start_byte, blank=child.start_byte > node.start_byte)
            text = text_of(child)
            if child.type == "variable_assignment" and not found:
                assignments.append(self._prefix(child))
                self.position = child.end_byte
                continue
            if child.type == "command_name":
                if not _PROGRAM.fullmatch(text) or "=" in text:
                    raise Refused("the program's name is not a plain word")
            elif not child.is_named and text not in ("!", "=", "=="):
                raise Refused("it is not made of plain words")
            found.append(self.word(child))
            sources.append(_shown(text, found[-1], child))
            self.position = child.end_byte
        if not found:
            raise Refused("of the assignment")
        first, *others = _variants(found)
        if first.words[0] == "read":
            self._read(first, others, assignments)
            assignments = []
        return SimpleCommand(
            first.words,
            tuple(sources),
            first.globs,
            joint,
            assignments=tuple(assignments),
            redirections=tuple(redirections),
            others=tuple(others),
            concurrent=self.concurrent,
            looped=self.looped,
            expanded=next((index for index, each in enumerate(found) if _is_expanded(each)), None),
        )

    def _read(self, first: Variant, others: list[Variant], assignments: list[tuple[str, str]]) -> None:
        """`read` sets variables to whatever comes in; a separator given for it alone changes nothing else."""
        words = list(first.words[1:])
        while words and words[0] in ("-r", "-d"):
            del words[: 2 if words[0] == "-d" else 1]
        if (
            others
            or any(name != "IFS" for name, _value in assignments)
            or not all(map(is_own_name, words))
            or not words
        ):
            raise Refused("of what read is given")
        for name in words:
            self.expansions.assign(name, [UNKNOWN])

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
        """Variables of the command itself."""
        for each in [node] if node.type == "variable_assignment" else node.children:
            name, written = _assignment(each)
            self.skip(each.start_byte, blank=each.start_byte > node.start_byte)
            value = each.child_by_field_name("value")
            if written and (value is None or text_of(value) != written):
                raise refusal(each)
            self.position = each.start_byte + len(name) + 1
            alternatives = self.word(value, assigned=True) if value is not None and written else [(Word(""),)]
            values = [alternative[0].text for alternative in alternatives]
            harmless = all(harmless_assignment(name, text) for text in values)
            if not is_own_name(name) and not harmless:
                raise refusal(each)
            self.expansions.assign(name, values)
            self.position = each.end_byte
        self.joint, self.started = "", True

    def _export(self, node: Node) -> SimpleCommand:
        """`export CI=1`: of harmless variables only."""
        words, sources = ["export"], ["export"]
        if text_of(node.children[0]) != "export" or len(node.children) < 2:
            raise refusal(node)
        joint = self.joint
        self._token(node.children[0], "export")
        for child in node.children[1:]:
            if child.type != "variable_assignment":
                raise refusal(node)
            self.skip(child.start_byte, blank=True)
            name, value = self._prefix(child)
            if not harmless_assignment(name, value):
                raise refusal(child)
            self.expansions.assign(name, [value])
            words.append(f"{name}={value}")
            sources.append(text_of(child))
            self.position = child.end_byte
        return SimpleCommand(tuple(words), tuple(sources), joint=joint, concurrent=self.concurrent, looped=self.looped)

    # ------------------------------------------------------------------------------------------------ tests

    def _test(self, node: Node) -> SimpleCommand:
        """`[ … ]`: the grammar makes an expression of it; for the shell they are words like any others."""
        found: list[list[Alternative]] = []
        sources: list[str] = []
        joint = self.joint
        for leaf in _test_leaves(node):
            if self.position != leaf.start_byte and not found:
                raise Refused("it is not made of plain words")
            self.skip(leaf.start_byte, blank=bool(found))
            text = text_of(leaf)
            if text in ("[", "]", "!", "=", "!=", "=="):
                alternatives: list[Alternative] = [(Word(text),)]
            elif leaf.is_named and leaf.type != "test_operator":
                alternatives = self.word(leaf)
            else:
                alternatives = [(Word(read_word(text)[0]),)]
            if any(word.glob for alternative in alternatives for word in alternative):
                raise Refused("of the pattern in [ … ]")
            found.append(alternatives)
            sources.append(text)
            self.position = leaf.end_byte
        if len(found) < 2 or sources[-1] != "]" or self.position != node.end_byte:
            raise refusal(node)
        first, *others = _variants(found)
        return self._test_part(first, others, sources, joint)

    def _test_part(self, first: Variant, others: list[Variant], sources: list[str], joint: Joint) -> SimpleCommand:
        return SimpleCommand(
            first.words,
            tuple(sources),
            joint=joint,
            others=tuple(others),
            concurrent=self.concurrent,
            looped=self.looped,
        )

    def _double_test(self, node: Node) -> SimpleCommand:
        """`[[ … ]]`, as words; `readonly` judges which operators may have which operands."""
        found: list[list[Alternative]] = []
        sources: list[str] = []
        joint = self.joint
        for leaf in _test_leaves(node):
            text = text_of(leaf)
            self.skip(leaf.start_byte, blank=bool(found) and text not in (")",) and sources[-1] != "(")
            if leaf.type == "regex":
                if not re.fullmatch(r"[\w.^*+?\[\]/:,\\-]+\$?", text):
                    raise refusal(node)
                alternatives: list[Alternative] = [(Word(text),)]
            elif leaf.is_named and leaf.type != "test_operator":
                # Nothing is split or expanded to names here; a pattern is matched against text.
                alternatives = self.word(leaf, assigned=True)
            else:
                alternatives = [(Word(text),)]
            found.append(alternatives)
            sources.append(text)
            self.position = leaf.end_byte
        if sources[:1] != ["[["] or sources[-1] != "]]" or self.position != node.end_byte:
            raise refusal(node)
        first, *others = _variants(found)
        return self._test_part(first, others, sources, joint)


def _is_expanded(alternatives: list[Alternative]) -> bool:
    """Whether a word has more than one value, or one that the text alone does not decide."""
    return len(alternatives) != 1 or len(alternatives[0]) != 1 or MARKED.search(alternatives[0][0].text) is not None


def _shown(source: str, alternatives: list[Alternative], node: Node) -> str:
    """How a word appears to rules and on the screen: as written, or as its value where that is certain."""
    if node.type in ("word", "number", "raw_string", "command_name") or "$" not in source and "`" not in source:
        return source
    if _is_expanded(alternatives) or alternatives[0][0].glob:
        return source
    return shlex.quote(alternatives[0][0].text)


def _operands(node: Node) -> list[Node]:
    """The commands of a list and the operators between them; the grammar nests it to the left."""
    first, *rest = node.children
    return [*(_operands(first) if first.type == "list" else [first]), *rest]


def _variants(words: list[list[Alternative]]) -> list[Variant]:
    found: list[Variant] = []
    for choice in product(*words):
        if len(found) >= _MOST_VARIANTS:
            raise Refused("its variables have too many values to be looked at")
        flat = [word for alternative in choice for word in alternative]
        globs = frozenset(index for index, word in enumerate(flat) if word.glob)
        found.append(Variant(tuple(word.text for word in flat), globs))
    return list(dict.fromkeys(found))


def _assignment(node: Node) -> tuple[str, str]:
    name, equals, written = text_of(node).partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise refusal(node)
    return name, written


def _heredoc_text(source: bytes, start: int, name: bytes, *, strip_tabs: bool) -> tuple[str | None, int]:
    """The text of a here-document and where the word that ends it ends; no text if it never does."""
    lines: list[bytes] = []
    position = start
    while 0 < position <= len(source):
        end = source.find(b"\n", position)
        line = source[position : len(source) if end < 0 else end]
        shown = line.lstrip(b"\t") if strip_tabs else line
        if shown == name:
            return b"".join(one + b"\n" for one in lines).decode(), position + len(line)
        if end < 0:
            break
        lines.append(shown)
        position = end + 1
    return None, -1


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
