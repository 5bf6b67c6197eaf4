"""Redirections, lists, loops and branches for the strict parser; `strict_parser` defines the result."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from agentcli.shell.parser.simple_commands import SimpleCommands, refusal
from agentcli.shell.parser.strict_parser import CommandStep, Joint, Redirection, Scope, SimpleCommand
from agentcli.shell.parser.syntax_tree import MAX_VALUES, text_of
from agentcli.shell.parser.words import (
    MARKED,
    NAME,
    NUMBER,
    UNKNOWN,
    Refused,
    VariableState,
    Word,
    check_visible,
    is_own_name,
    read_word,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTION = re.compile(r"(?P<from>\d*|&)(?P<operator>>>|>\||>&|<&|<>|>|<)[ \t]*")
COMPOUND = frozenset(
    {"subshell", "compound_statement", "if_statement", "for_statement", "while_statement", "case_statement"}
)


class Redirections(SimpleCommands):
    def _redirect(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            raise Refused(f"the redirection {text_of(node)} cannot be checked")
        compound = body.type in COMPOUND
        concurrent, self.concurrent = self.concurrent, self.concurrent or compound
        found: list[Redirection] = []
        count = len(self.steps)
        for child in node.children:
            if child.id == body.id:
                self.statement(child)
                self.concurrent = concurrent
            elif len(self.steps) == count:
                raise Refused(f"the redirection {text_of(node)} cannot be checked")
            elif child.type == "heredoc_redirect":
                self._attach(found, compound=compound)
                found = []
                self._heredoc(child, compound=compound)
            else:
                found.append(self.redirection(child))
        self._attach(found, compound=compound)

    def _attach(self, found: list[Redirection], *, compound: bool) -> None:
        last = self.steps[-1]
        if not found:
            return
        if compound:
            text = " ".join(redirection.text for redirection in found)
            part = SimpleCommand((":",), (text,), redirections=tuple(found), concurrent=self.concurrent)
            self.steps.append(part)
        elif isinstance(last, SimpleCommand):
            # The grammar attaches it to the whole list, bash to the last command.
            self.steps[-1] = replace(last, redirections=(*last.redirections, *found))
        else:
            raise Refused(f"the redirection {found[0].text} cannot be checked")

    def redirection(self, node: Node) -> Redirection:
        if node.type != "file_redirect":
            raise refusal(node)
        text = text_of(node)
        found = _REDIRECTION.match(text)
        if found is None:
            raise Refused(f"the redirection {text} cannot be checked")
        # In `a2>b` the digit belongs to the word.
        self.skip(node.start_byte, blank=found["from"] not in ("", "&") and self.position > 0)
        destination = text[found.end() :]
        child = node.child_by_field_name("destination")
        if child is not None and child.type == "process_substitution":
            if found["operator"] != "<" or found["from"] not in ("", "0") or text_of(child) != destination:
                raise Refused(f"the redirection {text} cannot be checked")
            self.position = child.start_byte
            self.expansions.stream(child)
            return Redirection("text", UNKNOWN, text)
        target = self._target(node, destination, text)
        self.position = node.end_byte
        source, operator = found["from"], found["operator"]
        if operator in (">&", "<&"):
            if source not in ("", "0", "1", "2") or destination not in ("1", "2") or operator == "<&":
                raise Refused(f"the redirection {text} cannot be checked")
            return Redirection("harmless", target, text)
        if source not in ("", "0", "1", "2", "&") or operator == "<>" or (operator == "<" and source not in ("", "0")):
            raise Refused(f"the redirection {text} cannot be checked")
        if destination == "/dev/null":
            return Redirection("harmless", target, text)
        return Redirection("read" if operator == "<" else "write", target, text)

    def _target(self, node: Node, destination: str, text: str) -> str:
        if "$" not in destination:
            target, glob = read_word(destination)
            if glob or not target:
                raise Refused(f"the redirection {text} cannot be checked")
            return target
        child = node.child_by_field_name("destination")
        words = self.word(child) if child is not None and text_of(child) == destination else ()
        if len(words) != 1 or words[0].glob or not words[0].text or MARKED.search(words[0].text):
            raise Refused(f"the redirection {text} cannot be checked")
        return words[0].text

    def _heredoc(self, node: Node, *, compound: bool) -> None:
        """Find the end of a here-document line by line, as the shell does, to verify the grammar."""
        operator, start, *rest = node.children
        written = text_of(start)
        quoted = re.fullmatch(r"'(\w+)'|\"(\w+)\"", written)
        name = (quoted[1] or quoted[2]) if quoted else written
        if text_of(operator) not in ("<<", "<<-") or not re.fullmatch(r"\w+", name):
            raise refusal(node)
        self._lone_dash(operator, compound=compound)
        self.skip(operator.start_byte)
        self.position = operator.end_byte
        self.skip(start.start_byte)
        self.position = start.end_byte
        found: list[Redirection] = []
        while rest and rest[0].type == "file_redirect":
            found.append(self.redirection(rest.pop(0)))
        line_end = self.source.find(b"\n", self.position)
        text, end = _heredoc_text(self.source, line_end + 1, name.encode(), strip_tabs=text_of(operator) == "<<-")
        if end != node.end_byte or text is None or (not quoted and re.search(r"[$`\\]", text)):
            raise refusal(node)
        check_visible(text)
        self._attach([*found, Redirection("text", text, f"<<{written}")], compound=compound)
        # The rest of the line precedes the here-document's text.
        for child in rest:
            if child.type not in ("heredoc_body", "heredoc_end"):
                if child.start_byte >= line_end:
                    raise refusal(node)
                self.statements(
                    child if child.type == "pipeline" else node, None if child.type == "pipeline" else [child]
                )
        if self.joint:
            raise Refused("it is incomplete")
        self.skip(line_end)
        self.position = end

    def _lone_dash(self, operator: Node, *, compound: bool) -> None:
        """The grammar drops a `-` before a here-document (`git commit -F - <<EOF`)."""
        last = self.steps[-1]
        if not re.fullmatch(rb"[ \t]+-[ \t]+", self.source[self.position : operator.start_byte]):
            return
        if compound or not isinstance(last, SimpleCommand) or last.expanded is not None or last.redirections:
            raise Refused("its syntax cannot be checked")
        self.steps[-1] = replace(last, words=(*last.words, "-"), sources=(*last.sources, "-"))
        self.position = operator.start_byte


def _heredoc_text(source: bytes, start: int, name: bytes, *, strip_tabs: bool) -> tuple[str | None, int]:
    """The text of a here-document and the end position of its delimiter; no text if it is not terminated."""
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


__all__ = ["CommandWalk", "Refused"]

_MAX_STEPS = 400
_JOINTS: dict[str, Joint] = {"&&": "&&", "||": "||", ";": ";", "|": "|", "\n": ";"}


class CommandWalk(Redirections):
    def finished(self) -> tuple[CommandStep, ...]:
        self.skip(len(self.source), wide=True)
        if not any(isinstance(step, SimpleCommand) for step in self.steps):
            raise Refused("it contains no command")
        if self.joint not in ("", ";"):
            raise Refused("it is incomplete")
        for index, step in enumerate(self.steps[1:]):
            before = self.steps[index]
            if isinstance(step, SimpleCommand) and step.piped and isinstance(before, SimpleCommand):
                self.steps[index] = replace(before, feeds=True)
        return tuple(self.steps)

    # ------------------------------------------------------------------------------------------------- lists

    def statements(self, node: Node, children: Iterable[Node] | None = None) -> None:
        """Read a program, a list, a pipeline, or the commands between two keywords."""
        for child in node.children if children is None else children:
            if not child.is_named:
                self._operator(child)
            elif child.type == "comment":
                self._comment(child)
            else:
                self.statement(child)

    def statement(self, node: Node) -> None:
        match node.type:
            case "list":
                self._list(node)
            case "pipeline":
                self._pipeline(node)
            case "command":
                self._begin(node)
                self._append(self._command(node))
            case "redirected_statement":
                self._redirect(node)
            case "negated_command":
                self._begin(node)
                self.token(node.children[0], "!")
                self.skip(node.children[1].start_byte, blank=True)
                joint, self.joint, self.started = self.joint, "", False
                for child in node.children[1:]:
                    self.statement(child)
                self.joint, self.started = "", True
                if joint == "|":
                    raise refusal(node)
            case "test_command":
                self._begin(node)
                self._append(self._test(node))
            case "variable_assignment" | "variable_assignments":
                self._begin(node)
                self._assignments(node)
            case "declaration_command" if text_of(node).startswith("export "):
                self._begin(node)
                self._append(self._export(node))
            case kind if kind in COMPOUND:
                self._begin(node)
                self._compound(node)
            case _:
                raise refusal(node)

    def _list(self, node: Node) -> None:
        """Read a list. From `||` on, assignments by its commands are uncertain."""
        variables = self.expansions.variables
        before: VariableState | None = None
        has_alternatives = False
        operands = _operands(node)
        leading, self.leading = (self.leading if self.leading and self.leading[0] == node.id else None), None
        concurrent = self.concurrent
        for child in operands:
            if leading is not None:
                self.concurrent = concurrent if child is operands[-1] else leading[1]
            self.statements(node, [child])
            if before is None:
                before = variables.state()
            elif not child.is_named:
                has_alternatives = has_alternatives or text_of(child) == "||"
                if has_alternatives:
                    variables.return_to(before)
        if before is not None:
            variables.return_to(before)

    def _pipeline(self, node: Node) -> None:
        variables = self.expansions.variables
        before, concurrent = variables.state(), self.concurrent
        # It is only clear what runs concurrently if every part is a command without substitutions.
        self.concurrent = concurrent or any(
            child.is_named and (child.type != "command" or re.search(rb"[$<]\(|`", child.text or b"") is not None)
            for child in node.children
        )
        first = node.children[0]
        if first.type == "redirected_statement" and first.children[0].type == "list":
            # The grammar reads `a && b 2>&1 | c` as `{ a && b; } 2>&1 | c`, but only `b` runs concurrently with `c`.
            self.leading = (first.children[0].id, concurrent)
        for child in node.children:
            self.statements(node, [child])
            # Each part of a pipeline runs in its own subshell.
            variables.return_to(before)
        self.concurrent = concurrent

    def _append(self, part: SimpleCommand) -> None:
        self.steps.append(part)
        self.joint = ""
        self.started = True

    def _begin(self, node: Node) -> None:
        """Check that an operator separates two commands, or a line feed where the grammar shows none."""
        between = self.source[self.position : node.start_byte]
        self.skip(node.start_byte, wide=True)
        if self.started and not self.joint:
            if b"\n" not in between.replace(b"\\\n", b""):
                raise Refused("its syntax cannot be checked")
            self.joint = ";"
        if self.joint not in ("&&", "|") and node.type != "command":
            # An assignment or an empty `case` is no step of its own, but a `cd` before it may have failed.
            self.steps += (Scope("branch", begins=True), Scope("branch", begins=False))

    def _operator(self, node: Node) -> None:
        kind = text_of(node)
        if kind == "&":
            raise Refused("it starts a background process")
        if kind == ";;" or kind.strip(" \t\n") not in ("&&", "||", ";", "|", ""):
            raise Refused(f"of {kind.strip()}")
        self.skip(node.start_byte, wide=True)
        self.position = node.end_byte
        joint = _JOINTS.get(kind.strip(" \t") or "\n", ";")
        if joint == ";" and self.joint in ("&&", "||", "|"):
            if kind.strip():
                raise Refused("it is incomplete")
            return
        if joint != ";" and (self.joint not in ("", ";") or not self.started):
            raise Refused("it is incomplete")
        if self.started:
            self.joint = joint
        elif kind.strip():
            raise Refused("it is incomplete")

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
            raise Refused("its syntax cannot be checked")
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

    def _body(self, node: Node, opened: str, closed: str, kind: Literal["subshell", "branch", "loop"]) -> None:
        self.token(node.children[0], opened)
        with self.nested(kind):
            self.statements(node, node.children[1:-1])
            if closed in ("}", "done") and self.joint != ";" and b"\n" not in self.gap_before(node.children[-1]):
                raise Refused("it is incomplete")
        self.token(node.children[-1], closed)

    def _if(self, node: Node) -> None:
        """Read `if`, `elif` and `else` alike: keywords, each followed by a command list."""
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
            self.token(keyword, "fi")
        else:
            self._clause(node, keyword, waiting, None)

    def _clause(self, node: Node, keyword: Node | None, children: list[Node], following: Node | None) -> None:
        if keyword is None:
            if children:
                raise refusal(node)
            return
        self.token(keyword, "if", "then", "elif", "else")
        with self.nested("branch"):
            self.statements(node, children)
            ended = self.joint == ";" or following is None or b"\n" in self.gap_before(following)
            if not ended:
                raise Refused("it is incomplete")

    def _for(self, node: Node) -> None:
        children = node.children
        body = children[-1]
        if len(children) < 4 or body.type != "do_group" or text_of(children[0]) != "for":
            raise refusal(node)
        self.token(children[0], "for")
        name = text_of(children[1])
        if not is_own_name(name) or children[1].type != "variable_name":
            raise Refused(f"the assignment to {name} cannot be checked")
        self.skip(children[1].start_byte, blank=True)
        self.position = children[1].end_byte
        self.token(children[2], "in")
        words: list[Word] = []
        ended = False
        for child in children[3:-1]:
            if not child.is_named:
                self.token(child, ";")
                ended = True
                continue
            if ended:
                raise refusal(node)
            self.skip(child.start_byte, blank=True)
            is_range = re.fullmatch(r"\{\d+\.\.\d+\}", text_of(child))
            words += (Word(NUMBER),) if is_range else self.word(child)
            self.position = child.end_byte
        if not ended and b"\n" not in self.gap_before(body):
            raise refusal(node)
        self.skip(body.start_byte, wide=True)
        self._iterate(node, name, words)

    def _iterate(self, node: Node, name: str, words: list[Word]) -> None:
        """Read the body of a loop once for each of its words. Names that a pattern matches are unknown, so the pattern
        itself is checked like the argument of a command."""
        patterns = tuple(word.text for word in words if word.glob)
        if patterns:
            sources = (self.source[node.start_byte : self.position].decode().strip(),)
            self._append(SimpleCommand((":", *patterns), sources, frozenset(range(1, len(patterns) + 1))))
        values = dict.fromkeys(NAME if word.glob else word.text for word in words) or {UNKNOWN: None}
        if len(values) > MAX_VALUES:
            raise Refused(f"${name} has more than {MAX_VALUES} values")
        variables, body, start = self.expansions.variables, node.children[-1], self.position
        before = variables.state()
        seen: set[tuple[CommandStep, ...]] = set()
        for value in values:
            self.position, count = start, len(self.steps)
            self.expansions.enter_loop(body)
            variables.assign(name, value)
            self._body(body, "do", "done", "loop")
            steps = tuple(self.steps[count:])
            if steps in seen:
                del self.steps[count:]
            seen.add(steps)
            if len(self.steps) > _MAX_STEPS:
                raise Refused("its loops have too many values to check")
        variables.return_to(before)

    def _while(self, node: Node) -> None:
        """Read `while read …`, the only accepted form: with another condition the loop may never end."""
        body = node.children[-1]
        condition = [child for child in node.children[1:-1] if child.is_named]
        if body.type != "do_group" or text_of(node.children[0]) != "while" or len(condition) != 1:
            raise Refused("the loop cannot be checked")
        name = condition[0].child_by_field_name("name") if condition[0].type == "command" else None
        if name is None or text_of(name) != "read":
            raise Refused("the loop may never end")
        self.token(node.children[0], "while")
        variables = self.expansions.variables
        before = variables.state()
        self.expansions.enter_loop(node)
        with self.nested("loop"):
            self.statements(node, node.children[1:-1])
            if self.joint != ";" and b"\n" not in self.gap_before(body):
                raise Refused("it is incomplete")
            read = set(variables.defined)
        variables.defined = read
        self.skip(body.start_byte, wide=True)
        self._body(body, "do", "done", "loop")
        variables.return_to(before)

    def _case(self, node: Node) -> None:
        subject, keyword = node.children[1], node.children[2]
        self.token(node.children[0], "case")
        self.skip(subject.start_byte, blank=True)
        self.word(subject, assigned=True)
        self.position = subject.end_byte
        self.token(keyword, "in")
        items = node.children[3:-1]
        for item in items:
            if item.type == "comment":
                self._comment(item)
                continue
            if item.type != "case_item":
                raise refusal(node)
            self._case_item(item)
        self.token(node.children[-1], "esac")

    def _case_item(self, item: Node) -> None:
        closing = next((index for index, child in enumerate(item.children) if child.type == ")"), None)
        if closing is None or text_of(item.children[-1]) != ";;":
            raise Refused("the case statement cannot be checked")
        for child in item.children[: closing + 1]:
            if child.is_named:
                if not re.fullmatch(r"""[\w.*?\[\]/,:+@%-]+|'[^']*'|"[^"$`\\!]*\"""", text_of(child)):
                    raise Refused("the case statement cannot be checked")
                self.skip(child.start_byte, wide=True)
                self.position = child.end_byte
            else:
                self.token(child, "(", "|", ")")
        with self.nested("branch"):
            self.statements(item, item.children[closing + 1 : -1])
            self.started = True
        self.token(item.children[-1], ";;")


def _operands(node: Node) -> list[Node]:
    """The commands of a list, which the grammar nests to the left, and the operators between them."""
    first, *rest = node.children
    return [*(_operands(first) if first.type == "list" else [first]), *rest]
