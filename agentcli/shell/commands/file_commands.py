"""Simple commands that change files like an edit does: `mkdir`, `touch`, `cp`, `mv`, `rm`, `sed -i`, `tee`.

For acceptEdits mode. Such a command changes exactly the paths returned here. There is no recursion except for copies
and archives of a folder (`CommandChanges.tree`), allowed only into the session's temp folder. Not included: removing
folders or many files, links, mode changes, and sed scripts that write files or run programs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.shell.commands.command_parts import CommandPart
from agentcli.shell.commands.scripts import sed_only_prints
from agentcli.shell.paths import expanded_pattern

MOST_REMOVED = 10
_MOST_OPERANDS = 200
_FLAGS = {
    "mkdir": r"-[pv]+|--parents|--verbose",
    "touch": r"-[acm]+",
    "cp": r"-[fnpuv]+",
    "mv": r"-[fnuv]+",
    "rm": r"-[fv]+|--force|--verbose",
    "tee": r"-[a]+|--append",
}
_COPIES_TREE = lazy_pattern(r"cp -[rRpv]*[rR][rRpv]*\Z")
_ARCHIVES = lazy_pattern(r"-?(?=[czjJv]*c)[czjJv]*f")
_PLAIN_OPERAND = lazy_pattern(r"[^-@:][^:]*")
"""Not an option, not an archive to include and not a remote host."""
_SED_TEXT = lazy_pattern(r"[ ]*(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n])*/)?[ ]*[aic](?:\\)?[ \t][^\n]*")
"""`3a text`, `/x/i text`: adds or changes lines; the text extends to the end of the script."""


@frozen
class CommandChanges:
    writes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    """Removed names; for a link, the link itself."""
    moved: tuple[str, ...] = ()
    """Names moved to `target`."""
    target: str = ""
    tree: str = ""
    """A folder that is read completely, for an archive or a copy."""


def part_changes(part: CommandPart, folder: str) -> CommandChanges | None:
    start = len(part.command.words) - len(part.inner)
    return file_changes(part.known or part.inner, folder, frozenset(index - start for index in part.command.globs))


def file_changes(words: tuple[str, ...], folder: str, globs: frozenset[int] = frozenset()) -> CommandChanges | None:
    """The paths that the command would write, read and remove; None if it is not one of these commands."""
    if words[0] == "sed":
        return _sed(words, folder, globs)
    if words[0] == "tar" or _COPIES_TREE.match(" ".join(words[:2])):
        return None if globs else _tree(words, folder)
    if words[0] == "tee" and "/dev/null" in words[1:] and not globs:
        words = tuple(word for word in words if word != "/dev/null")
        if words == ("tee",):
            return CommandChanges(())
    flags = _FLAGS.get(words[0])
    if flags is None:
        return None
    operands: list[str] = []
    for index, word in enumerate(words[1:], 1):
        if word.startswith("-"):
            if operands or index in globs or not re.fullmatch(flags, word):
                return None
            continue
        found = _paths(word, folder, is_glob=index in globs)
        if found is None:
            return None
        operands += found
    if not operands or len(operands) > _MOST_OPERANDS:
        return None
    match words[0]:
        case "mkdir" | "touch" | "tee":
            return None if globs else CommandChanges(tuple(operands))
        case "rm":
            return CommandChanges((), removes=tuple(operands)) if is_plain_removal(operands) else None
        case _:
            return None if len(words) - 1 in globs else _transfer(words[0], operands)


def _paths(word: str, folder: str, *, is_glob: bool) -> list[str] | None:
    names = expanded_pattern(word, folder) if is_glob else [word]
    # A name that begins with a dash would be parsed as a flag.
    if not word or not names or any(name.startswith("-") for name in names):
        return None
    return [os.path.join(folder, name) for name in names]  # noqa: PTH118 - `..` must stay for what links make of it


def is_plain_removal(paths: Sequence[str]) -> bool:
    folders = any(path.endswith(("/", "/.", "/..")) or (_is_folder(path) and not _is_link(path)) for path in paths)
    return not folders and len(paths) <= MOST_REMOVED


def _transfer(program: str, operands: list[str]) -> CommandChanges | None:
    if len(operands) < 2:
        return None
    *sources, target = operands
    # The target may have become a folder when the command runs.
    inside = [os.path.join(target, os.path.basename(os.path.normpath(source))) for source in sources]  # noqa: PTH118, PTH119
    if program == "mv":
        return CommandChanges((*sources, target, *inside), moved=tuple(sources), target=target)
    # A copied folder brings all its contents; cp without -r refuses folders, and so does this.
    if any(map(_is_folder, sources)):
        return None
    return CommandChanges((target, *inside), tuple(sources))


def _tree(words: tuple[str, ...], folder: str) -> CommandChanges | None:
    """`tar czf ARCHIVE NAME`, `cp -r NAME TARGET`: one file or folder with everything below it."""
    if len(words) != 4 or not all(map(_PLAIN_OPERAND.fullmatch, words[2:])):
        return None
    if words[0] == "tar" and not _ARCHIVES.fullmatch(words[1]):
        return None
    first, second = (os.path.join(folder, word) for word in words[2:])  # noqa: PTH118
    if words[0] == "tar":
        return CommandChanges((first,), (second,), tree=second)
    inside = os.path.join(second, os.path.basename(os.path.normpath(first)))  # noqa: PTH118, PTH119
    return CommandChanges((second, inside), (first,), target=second, tree=first)


def _sed(words: tuple[str, ...], folder: str, globs: frozenset[int]) -> CommandChanges | None:
    """`sed -i` with scripts that only compute; with a suffix, copies of the files are written too."""
    scripts: list[str] = []
    operands: list[str] = []
    suffix: str | None = None
    script_next = False
    for index, word in enumerate(words[1:], 1):
        in_place = re.fullmatch(r"-[nErsuz]*i([\w.~-]*)|--in-place(?:=([\w.~-]+))?", word)
        if script_next:
            scripts.append(word)
            script_next = False
        elif in_place is not None and not operands:
            suffix = in_place[1] or in_place[2] or ""
        elif word in ("-e", "--expression") and not operands:
            script_next = True
        elif word.startswith("-"):
            if operands or index in globs or not re.fullmatch(r"-[nErsuz]+|--regexp-extended|--quiet", word):
                return None
        elif not scripts:
            if index in globs:
                return None
            scripts.append(word)
        else:
            found = _paths(word, folder, is_glob=index in globs)
            if found is None:
                return None
            operands += found
    harmless = all(sed_only_prints(script) or _SED_TEXT.fullmatch(script) for script in scripts)
    if suffix is None or script_next or not scripts or not harmless or not 0 < len(operands) <= _MOST_OPERANDS:
        return None
    copies = [path + suffix for path in operands] if suffix else []
    return CommandChanges((*operands, *copies), tuple(operands))


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _is_link(path: str) -> bool:
    return os.path.islink(path)  # noqa: PTH114
