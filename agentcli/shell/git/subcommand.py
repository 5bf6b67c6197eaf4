"""Find the sub-command in the words of a git command."""

from __future__ import annotations

from collections.abc import Sequence

_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"})
"""Options of git itself that take the next word as their value."""


def subcommand_index(words: Sequence[str]) -> int:
    """Index of git's sub-command among words that begin with `git`; the number of words if there is none."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in _VALUES else 1
    return min(index, len(words))
