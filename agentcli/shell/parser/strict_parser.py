"""Strict parser: split a command into simple commands with known words, or return why it cannot.

Read-only proofs and allow rules depend on the result, so nothing may be guessed. The grammar gives the structure, and
every byte is checked a second time: each word is parsed independently, and only blanks may separate words. If the
grammar and bash disagree, one of the two checks refuses. Control flow is not followed: every command in a branch
counts, and those of a `for` loop once for each of its words.
"""

from __future__ import annotations

import functools
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import has_control_characters
from agentcli.shell.parser.syntax_tree import Unparsable, parse

Joint = Literal["", "&&", "||", ";", "|"]


@frozen
class Redirection:
    kind: Literal["harmless", "write", "read", "text"]
    """`text`: input contained in the command (a here-document or here-string)."""
    target: str
    text: str


@frozen
class SimpleCommand:
    """One part of a compound command."""

    words: tuple[str, ...]
    """The words without quotes, and with markers (see `words`) for parts known only at run time."""
    sources: tuple[str, ...]
    """The same words as written."""
    globs: frozenset[int] = frozenset()
    """Indexes of the words that the shell would expand to file names."""
    joint: Joint = ""
    """Operator before it."""
    feeds: bool = False
    """Whether its output is piped into the next part."""
    assignments: tuple[tuple[str, str], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    expanded: int | None = None
    """Index in `sources` of the first word whose value the command text alone does not determine."""
    concurrent: bool = False
    """Whether it is inside a loop, group or branch that is piped or redirected."""
    looped: bool = False
    """Whether it may run more than once, so that later parts of the text may run before it."""

    @property
    def text(self) -> str:
        """Command text for rule matching: single blanks, no redirections."""
        return " ".join(self.sources)

    @property
    def piped(self) -> bool:
        return self.joint == "|"


@frozen
class Scope:
    """Start or end of a nested command list. The end of a subshell restores the folder."""

    kind: Literal["subshell", "branch", "loop"]
    begins: bool


CommandStep = SimpleCommand | Scope


class NotPlain(str):
    """Reason why a command cannot be parsed strictly."""

    __slots__ = ()


def plain_commands(command: str) -> tuple[SimpleCommand, ...] | NotPlain:
    """The parts of a command in the order of the text."""
    steps = plain_steps(command)
    return steps if isinstance(steps, NotPlain) else tuple(s for s in steps if isinstance(s, SimpleCommand))


Variables = tuple[tuple[str, str], ...]
"""Names and values of environment variables."""


@functools.lru_cache(maxsize=128)
def plain_steps(command: str, variables: Variables = ()) -> tuple[CommandStep, ...] | NotPlain:
    """The parts and their scopes. Cached, because each call checks its command several times."""
    if has_control_characters(command):
        return NotPlain("it contains control characters")
    root = parse(command)
    if isinstance(root, Unparsable):
        return NotPlain(root)
    from agentcli.shell.parser.walk import CommandWalk, Refused

    walk = CommandWalk(command.encode(), root, dict(variables))
    try:
        walk.statements(root)
        return walk.finished()
    except Refused as refused:
        return NotPlain(str(refused))
