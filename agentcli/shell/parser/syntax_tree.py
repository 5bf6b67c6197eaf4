"""Parse a command into a syntax tree with the bash grammar, within limits.

Loading the grammar takes 40 ms, so it is loaded when the first command has to be judged.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_BYTES = 20_000
MAX_NODES = 4_000
MAX_DEPTH = 60
MAX_PIPES = 400
"""Maximum nesting: each level costs as much as all levels before it."""
MAX_VALUES = 32
"""Maximum values of one variable that are tracked; each of them is checked."""
_CPU_SECONDS = 0.1
_PIECE = 256
_SHORT = 500
"""Inputs up to this many bytes always parse within the time limit."""


class Unparsable(str):
    """Reason why there is no syntax tree."""

    __slots__ = ()


def too_long(command: str) -> bool:
    """Whether a text exceeds the size limit; fast for any length."""
    return len(command) > MAX_BYTES or len(command.encode("utf-8", "replace")) > MAX_BYTES


def parse(command: str) -> Node | Unparsable:
    """The root of the tree; `Unparsable` if the grammar does not fully understand the command."""
    try:
        source = command.encode("utf-8")
    except UnicodeEncodeError:
        return Unparsable("it contains invalid characters")
    if len(source) > MAX_BYTES:
        return Unparsable("it is too long to check")
    if source.count(b"|") > MAX_PIPES:
        return Unparsable("it is too complex to check")
    try:
        root = _tree(source)
    except TimeoutError:
        return Unparsable("it is too complex to check")
    if root.descendant_count > MAX_NODES or _deeper(root, MAX_DEPTH):
        return Unparsable("it is too complex to check")
    if root.has_error:
        return Unparsable("it cannot be parsed")
    return root


@functools.lru_cache(maxsize=4)
def _tree(source: bytes) -> Node:
    """Parse, briefly cached: each parser reads the same tree of a command.

    Raises TimeoutError if parsing takes too long: error recovery is quadratic, half a minute for 20 kB of `@a`.
    """
    from tree_sitter import Parser

    if len(source) <= _SHORT:
        return Parser(_grammar()).parse(source).root_node
    until = time.thread_time() + _CPU_SECONDS
    in_time = True

    def read(offset: int, _point: object) -> bytes:
        # The only way to stop the parser is to end its input.
        nonlocal in_time
        in_time = in_time and time.thread_time() < until
        return source[offset : offset + _PIECE] if in_time else b""

    tree = Parser(_grammar()).parse(read)
    finished = in_time
    # Node texts are read through the same function later, which would loop forever if it returned nothing.
    in_time, until = True, float("inf")
    if not finished:
        raise TimeoutError
    return tree.root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def shorten_source(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


def descendants(node: Node) -> Iterator[Node]:
    """The node and all nodes below it, parents first."""
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
