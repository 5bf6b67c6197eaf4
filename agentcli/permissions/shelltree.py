"""Text to syntax tree: bash by its real grammar, within limits. Nothing is judged here.

The grammar costs 40 ms to load, so it is loaded when the first command has to be judged; `warm` does it beforehand.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MOST_BYTES = 20_000
MOST_NODES = 4_000
MOST_DEPTH = 60


class Unparsable(str):
    """Why there is no tree: a clause that goes after `because`."""

    __slots__ = ()


def too_long(command: str) -> bool:
    """More than is looked at, in bytes; cheap for any length."""
    return len(command) > MOST_BYTES or len(command.encode("utf-8", "replace")) > MOST_BYTES


def parse(command: str) -> Node | Unparsable:
    """The root of the tree. What the grammar does not fully understand has no tree."""
    try:
        source = command.encode("utf-8")
    except UnicodeEncodeError:
        return Unparsable("it contains characters that no command can have")
    if len(source) > MOST_BYTES:
        return Unparsable("it is too long to be analysed")
    from tree_sitter import Parser

    root = Parser(_grammar()).parse(source).root_node
    if root.descendant_count > MOST_NODES or _deeper(root, MOST_DEPTH):
        return Unparsable("it is too complex to be analysed")
    if root.has_error:
        return Unparsable("it cannot be parsed")
    return root


def warm() -> None:
    """Load the grammar; harmless in a thread."""
    parse("true")


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def descendants(node: Node) -> Iterator[Node]:
    """All nodes below and the node itself, parents first."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.children))


def _deeper(root: Node, limit: int) -> bool:
    level = [root]
    for _ in range(limit):
        level = [child for node in level for child in node.children if child.child_count]
        if not level:
            return False
    return True


@functools.cache
def _grammar() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
