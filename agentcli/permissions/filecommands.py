"""Commands that change files in a way that is as plain as an edit: `mkdir`, `touch`, `cp` and `mv` of what they name.

For the mode in which edits are accepted. Never `rm`, nothing recursive, no links, no patterns: what they change is
exactly the paths that come out of here.
"""

from __future__ import annotations

import os
import re

from agentcli.core.frozen import frozen

_FLAGS = {"mkdir": r"-[pv]+|--parents|--verbose", "touch": r"-[acm]+", "cp": r"-[fnpuv]+", "mv": r"-[fnuv]+"}


@frozen
class Changes:
    writes: tuple[str, ...]
    reads: tuple[str, ...] = ()


def file_changes(words: tuple[str, ...], folder: str, globs: frozenset[int] = frozenset()) -> Changes | None:
    """What the command would write and read, as paths; None if it is not one of these."""
    flags = _FLAGS.get(words[0])
    if flags is None or globs:
        return None
    operands: list[str] = []
    for word in words[1:]:
        if word.startswith("-"):
            if operands or not re.fullmatch(flags, word):
                return None
        elif not word:
            return None
        else:
            operands.append(os.path.join(folder, word))  # noqa: PTH118 - `..` must stay for what links make of it
    if words[0] in ("mkdir", "touch"):
        return Changes(tuple(operands)) if operands else None
    if len(operands) < 2:
        return None
    *sources, target = operands
    targets = [target]
    if os.path.isdir(target):  # noqa: PTH112
        targets += [os.path.join(target, os.path.basename(os.path.normpath(source))) for source in sources]  # noqa: PTH118, PTH119
    if words[0] == "mv":
        return Changes((*sources, *targets))
    # A copied folder brings along whatever is in it; cp without -r refuses folders, and so does this.
    if any(os.path.isdir(source) for source in sources):  # noqa: PTH112
        return None
    return Changes(tuple(targets), tuple(sources))
