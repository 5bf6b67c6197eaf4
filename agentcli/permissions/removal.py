"""Recognises commands that would remove what nobody ever means to: `/`, home, the working directory, their parents.

Text analysis on the loose walk: it asks too often rather than too seldom, and is no substitute for a sandbox.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from agentcli.permissions.loose import loose_segments

_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "trash"})
_TRIGGERS = _REMOVERS | {"find"}
_FIND_FILTERS = re.compile(r"-(?:i?name|i?path|i?regex|i?wholename|empty|[acm]time|[acm]min|size|newer\w*)\Z")


def removed_essential(command: str, cwd: Path, keep: Iterable[Path], home: Path | None) -> str | None:
    """The path, as written, of an essential folder that the command would remove; None if there is none.

    `keep` are the working directories; they, `cwd`, `home` and all parents of these are essential.
    """
    found = loose_segments(command)
    segments = [segment.text.split(" ") for segment in found]
    if not any(word.rpartition("/")[2] in _TRIGGERS for words in segments for word in words):
        return None
    essential = {"/"}
    for folder in (cwd, *keep, *([home] if home else [])):
        for name in (os.path.normpath(folder), os.path.realpath(folder)):
            essential.update([name, *(str(parent) for parent in Path(name).parents)])
    bases = [str(cwd)]
    # What a `cd` in the same command leads to is where a later `rm -rf *` works.
    moves = [words[1] if len(words) > 1 else "~" for words in segments if words[0] in ("cd", "pushd")]
    bases += [str(cwd / _expanded(move, cwd, home)) for move in moves]
    for segment, words in zip(found, segments, strict=True):
        for index, word in enumerate(words if segment.anywhere else words[:1]):
            program, arguments = word.rpartition("/")[2], words[index + 1 :]
            if program in _REMOVERS:
                targets = [argument for argument in arguments if not argument.startswith("-")]
            elif program == "find" and _find_removes_all(arguments):
                targets = _find_roots(arguments)
            else:
                continue
            for target in targets:
                if any(_normal(base, target, cwd, home) in essential for base in bases):
                    return target
    return None


def _find_removes_all(arguments: list[str]) -> bool:
    removes = "-delete" in arguments or ("-exec" in arguments and any(w.rpartition("/")[2] == "rm" for w in arguments))
    return removes and not any(_FIND_FILTERS.match(argument) for argument in arguments)


def _find_roots(arguments: list[str]) -> list[str]:
    roots: list[str] = []
    for argument in arguments:
        if argument.startswith(("-", "!")):
            break
        roots.append(argument)
    return roots or ["."]


def _expanded(word: str, cwd: Path, home: Path | None) -> str:
    word = re.sub(r"\$HOME\b|\$\{?HOME\}?|^~(?=/|$)", lambda _: str(home or "~"), word)
    return re.sub(r"\$\{?PWD\}?", lambda _: str(cwd), word)


def _normal(base: str, word: str, cwd: Path, home: Path | None) -> str:
    word = _expanded(word, cwd, home)
    # All that is in a folder is as good as the folder: `/*`, `~/*`, `*`, `./.*`.
    word = re.sub(r"(?:^|(?<=/))(?:\.?\*+|\.\[!?\.?\]\*|\.\?\?\*)\Z", "", word) or "."
    return os.path.normpath(Path(base) / word)
