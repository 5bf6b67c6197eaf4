"""Redirections, here-documents and here-strings for the strict parser."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.shell.parser.cursor import refusal
from agentcli.shell.parser.simple_commands import SimpleCommands
from agentcli.shell.parser.strict_parser import Redirection, SimpleCommand
from agentcli.shell.parser.syntax_tree import text_of
from agentcli.shell.parser.values import UNDECIDED, UNKNOWN
from agentcli.shell.parser.words import Refused, check_visible, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTION = re.compile(r"(?P<from>\d*|&)(?P<operator>>>|>\||>&|<&|<>|>|<)[ \t]*")
COMPOUND = frozenset(
    {"subshell", "compound_statement", "if_statement", "for_statement", "while_statement", "case_statement"}
)


class Redirections(SimpleCommands):
    def _redirected(self, node: Node) -> None:
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
        if node.type == "herestring_redirect":
            return self._herestring(node)
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
        alternatives = self.word(child) if child is not None and text_of(child) == destination else []
        if len(alternatives) != 1 or len(alternatives[0]) != 1 or alternatives[0][0].glob:
            raise Refused(f"the redirection {text} cannot be checked")
        target = alternatives[0][0].text
        if not target or UNDECIDED.search(target):
            raise Refused(f"the redirection {text} cannot be checked")
        return target

    def _herestring(self, node: Node) -> Redirection:
        operator, word = node.children[0], node.children[-1]
        if len(node.children) != 2 or text_of(operator) != "<<<":
            raise Refused("the here-string cannot be checked")
        self.skip(operator.start_byte)
        self.position = operator.end_byte
        self.skip(word.start_byte)
        self.word(word, assigned=True)
        self.position = word.end_byte
        return Redirection("text", UNKNOWN, text_of(node))

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
        if (
            compound
            or not isinstance(last, SimpleCommand)
            or last.expanded is not None
            or last.others
            or last.redirections
        ):
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
