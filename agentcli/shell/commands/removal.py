"""What a command removes: folders that may hold the user's files, and those that a tool can make again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from agentcli.core.files.access import is_below
from agentcli.core.files.rebuildable import CACHES, OUTPUT, is_virtual_environment
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.parser.loose_parser import loose_segments
from agentcli.shell.paths import expand_pattern
from agentcli.shell.restricted_files import has_tracked_files


@frozen
class Rebuildable:
    installation: tuple[Path, ...] = ()
    """The files that run agentcli, resolved."""
    search_path: str | None = None
    working_dirs: tuple[Path, ...] = ()

    def covers(self, path: str, cwd: Path) -> bool:
        """Whether a path is such a folder below `cwd`, or inside one."""
        start = os.path.normpath(cwd)
        place = os.path.normpath(os.path.join(start, path))  # noqa: PTH118
        if place == start or not is_below(place, (start,)):
            return False
        folders = []
        while place != start:
            folders.append(Path(place))
            place = os.path.dirname(place)  # noqa: PTH120
        # A link among them could lead anywhere.
        return not any(map(Path.is_symlink, folders)) and any(map(self._can_be_rebuilt, folders))

    def _can_be_rebuilt(self, folder: Path) -> bool:
        named = folder.name in CACHES or folder.name in OUTPUT
        if not (named or is_virtual_environment(folder)) or not folder.is_dir():
            return False
        real = os.path.realpath(folder)
        if any(is_below(str(part), (real,)) or is_below(real, (str(part),)) for part in self.installation):
            return False
        if (folder / ".git").exists():
            return False
        tracked = has_tracked_files(folder, self.search_path, self.working_dirs)
        return tracked is False or (tracked == "no repository" and folder.name not in OUTPUT)


def finds_only_caches(words: Sequence[str]) -> bool:
    names = [name for test, name in pairwise(words) if test == "-name"]
    plain = not any(word in ("-o", "-or", "!", "-not", ",", "\\!") for word in words)
    return plain and bool(names) and all(name in CACHES or name in ("*.pyc", "*.pyo") for name in names)


_REMOVERS = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "trash"})
_TRIGGERS = _REMOVERS | {"find"}
_FIND_NAMES = lazy_pattern(r"-(?:i?name|i?path|i?regex|i?wholename)\Z")
_FIND_FILTERS = lazy_pattern(r"-(?:empty|[acm]time|[acm]min|size|newer\w*)\Z")
_MAX_FINDS = 40
_MAX_PATTERNS = 60
_MAX_TARGETS = 2_000
_LISTS_SOME = frozenset({"git", "rg", "grep", "egrep", "fgrep", "fd", "ag"})
"""Programs that select names by content or attributes, so their output is never a whole folder tree."""
_UNKNOWN = lazy_pattern(
    r"(?:^|[\s;&|(){}'\"`/\\])(?:rm|rmdir|unlink|shred|srm|trash)\s(?P<arguments>[^;&|\n]*)", re.MULTILINE
)
_VARIABLE = lazy_pattern(r"\$\{?(\w+)\}?")
_NEW_TEMP_FILE = lazy_pattern(r"(?:^|[\s;&|(])(\w+)=\"?\$\(mktemp(?: -d)?\)\"?(?=[\s;&|]|$)")
_ASSIGNED = lazy_pattern(r"(?:^|[\s;&|(])(\w+)=([^\s;&|]*)")


def find_removed_essential(command: str, cwd: Path, keep: Iterable[Path], home: Path | None) -> str | None:
    """The target of a removal that is or may be an essential folder, as written; None if there is none.

    Essential are `cwd`, `home`, the working directories (`keep`) and all parents of these.
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
    # A later `rm -rf *` works in the folder that a `cd` of the same command leads to.
    moves = [words[1] if len(words) > 1 else "~" for words in segments if words[0] in ("cd", "pushd")]
    bases += [str(cwd / _expand(move, cwd, home)) for move in moves[:_MAX_FINDS]]
    removes, patterns = False, 0
    for segment, words in zip(found, segments, strict=True):
        targets, removing = _targets(words if segment.anywhere else words[:1], words)
        removes = removes or removing
        targets = list(dict.fromkeys(targets))
        if len(targets) > _MAX_TARGETS:
            return "more files than can be checked"
        for target in targets:
            patterns += any(character in target for character in "*?[")
            # Each pattern costs a directory listing.
            if patterns > _MAX_PATTERNS:
                return "more files than can be checked"
            # `~name` is the home folder of another user.
            if re.match(r"~[^/]", target) or any(_meets(base, target, cwd, home, essential) for base in bases):
                return target
        if removing and "xargs" in words[:-1] and not _names_are_chosen(segments):
            return "the files that xargs receives"
    return _find_unknown_target(command) if removes else None


def _targets(starts: list[str], words: list[str]) -> tuple[list[str], bool]:
    targets: list[str] = []
    finds = 0
    for index, word in enumerate(starts):
        program = word.rpartition("/")[2]
        if program in _REMOVERS:
            # Words after a second `rm` also follow the first one.
            return targets + [argument for argument in words[index + 1 :] if not argument.startswith("-")], True
        if program == "find":
            finds += 1
            arguments = words[index + 1 :] if finds <= _MAX_FINDS else []
            if _find_removes_all(arguments):
                targets += _find_roots(arguments)
    return targets, False


def _find_unknown_target(command: str) -> str | None:
    """A removal target whose value only the running shell knows."""
    text = command.replace("\\\n", "")
    assigned: dict[str, bool] = {}
    for name, value in _ASSIGNED.findall(text):
        # The loose parser replaces variables by their plain values.
        plain = re.fullmatch(r"[\w./~+:@%-]+|'[^'$`]*'|\"[^\"$`]*\"", value) is not None
        assigned[name] = assigned.get(name, True) and plain
    # If mktemp fails the value is empty, which matters only if a path follows it.
    new = {name for name in _NEW_TEMP_FILE.findall(text) if len(re.findall(rf"\b{name}=", text)) == 1}
    for found in _UNKNOWN.finditer(text):
        arguments = found["arguments"]
        shown = " ".join(word for word in arguments.split() if not word.startswith("-"))
        if "`" in arguments or "$(" in arguments or "<(" in arguments or re.search(r"\$\{\w*[^\w}]", arguments):
            return shown
        for name in _VARIABLE.findall(arguments):
            if name == "TMPDIR" and re.search(r"\$\{?TMPDIR\}?/[\w.-]", arguments):
                continue
            if name in new and not re.search(rf"\$(?:{name}|\{{{name}\}})\"?[^\s\"]", arguments):
                continue
            if name not in ("HOME", "PWD", "IFS") and not assigned.get(name, False):
                return f"${name}"
        if "$" in _VARIABLE.sub("", arguments).replace("$'", "").replace('$"', ""):
            return shown
    return None


def _names_are_chosen(segments: list[list[str]]) -> bool:
    """Whether the names for xargs come from a search that cannot list a whole folder."""
    for words in segments:
        program = words[0].rpartition("/")[2]
        if program in _LISTS_SOME or (program == "find" and _has_filter(words)):
            return True
    return False


def _find_removes_all(arguments: list[str]) -> bool:
    runs = any(argument in ("-exec", "-execdir", "-ok", "-okdir") for argument in arguments)
    removes = "-delete" in arguments or (runs and any(w.rpartition("/")[2] == "rm" for w in arguments))
    return removes and not _has_filter(arguments)


def _has_filter(arguments: list[str]) -> bool:
    for index, argument in enumerate(arguments):
        if index and arguments[index - 1] in ("!", "-not", "\\!"):
            # Everything but a few names is nearly everything.
            continue
        if _FIND_FILTERS.match(argument):
            return True
        if _FIND_NAMES.match(argument) and index + 1 < len(arguments) and not _matches_all(arguments[index + 1]):
            return True
    return False


def _find_roots(arguments: list[str]) -> list[str]:
    roots: list[str] = []
    for argument in arguments:
        if argument.startswith(("-", "!")):
            break
        roots.append(argument)
    return roots or ["."]


def _expand(word: str, cwd: Path, home: Path | None) -> str:
    word = re.sub(r"\$HOME\b|\$\{?HOME\}?|^~(?=/|$)", lambda _: str(home or "~"), word)
    return re.sub(r"\$\{?PWD\}?", lambda _: str(cwd), word)


def _matches_all(name: str) -> bool:
    """Whether a pattern matches practically everything: `*`, `.*`, `?*`, `[a-z]*`, `*.*`, `./*`."""
    return re.sub(r"\[[^\]/]*\]|[*?./]", "", name) == ""


def _meets(base: str, word: str, cwd: Path, home: Path | None, essential: set[str]) -> bool:
    path = _expand(word, cwd, home).rstrip("/") or "/"
    # Removing all contents counts as removing the folder: `/*`, `~/*`, `*`, `./.*`.
    folder, _slash, name = path.rpartition("/")
    while re.search(r"[*?\[]", name) and _matches_all(name):
        path = folder or ("/" if path.startswith("/") else ".")
        folder, _slash, name = path.rpartition("/")
    if _normal(base, path) in essential:
        return True
    matches = expand_pattern(path, base) if re.search(r"[*?\[]", path) else None
    return any(_normal(base, match) in essential for match in matches or ())


def _normal(base: str, word: str) -> str:
    path = os.path.normpath(os.path.join(base, word))  # noqa: PTH118 - pathlib keeps two slashes, and so does normpath
    return "/" + path.lstrip("/")
