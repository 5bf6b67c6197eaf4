"""A slower search in plain Python, used if ripgrep does not run: the few options that the tools use.

Runs as a separate process (`ripgrep._plain_search`), which is killed at the timeout. Prints the same output as ripgrep.
Supports the usual part of .gitignore: patterns in the folders on the path, no global ones.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.core.bounded_read import Unread, read_bounded, read_start
from agentcli.core.globs import glob_regex

_LARGEST_FILE = 20 * 1024 * 1024
_LARGEST_IGNORE_FILE = 512 * 1024
_SAMPLE = 8192
_TYPES = {
    "c": "*.{c,h}",
    "cpp": "*.{cpp,cc,cxx,hpp,hh,hxx,h}",
    "css": "*.{css,scss}",
    "go": "*.go",
    "html": "*.{html,htm}",
    "java": "*.java",
    "js": "*.{js,jsx,mjs,cjs}",
    "json": "*.json",
    "md": "*.{md,markdown}",
    "php": "*.php",
    "py": "*.{py,pyi}",
    "ruby": "*.rb",
    "rust": "*.rs",
    "sh": "*.{sh,bash,zsh}",
    "sql": "*.sql",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,mts,cts}",
    "txt": "*.txt",
    "xml": "*.xml",
    "yaml": "*.{yaml,yml}",
}


@dataclass
class _Wanted:
    """The options, named as in ripgrep."""

    roots: list[str] = field(default_factory=list)
    pattern: str = ""
    flags: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    """Globs; one of them must match the name."""
    globs: list[str] = field(default_factory=list)
    before: int = 0
    after: int = 0
    longest: int = 0


class _Unusable(Exception):
    """An error message for the caller."""


def main(arguments: Sequence[str]) -> None:
    try:
        wanted = _parsed(arguments)
        found = _files(wanted) if "--files" in wanted.flags else _searched(wanted)
        some = False
        for piece in found:
            some = True
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except _Unusable as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except BrokenPipeError:
        os._exit(0)
    sys.exit(0 if some else 1)


def _parsed(arguments: Sequence[str]) -> _Wanted:
    wanted = _Wanted()
    added: dict[str, list[str]] = {}
    types: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, _equals, text = argument.partition("=")
        if argument == "--":
            wanted.roots = list(rest)
        elif name == "--regexp":
            wanted.pattern = text
        elif name == "--glob":
            wanted.globs.append(text)
        elif name == "--type":
            types.append(text)
        elif name == "--type-add":
            kind, _colon, glob = text.partition(":")
            added.setdefault(kind, []).append(glob)
        elif name == "--max-columns":
            wanted.longest = int(text)
        elif argument[:2] in ("-A", "-B", "-C") and argument[2:].isdigit():
            wanted.after = int(argument[2:]) if argument[1] in "AC" else wanted.after
            wanted.before = int(argument[2:]) if argument[1] in "BC" else wanted.before
        else:
            wanted.flags.add(argument)
    for kind in types:
        if kind not in added and kind not in _TYPES:
            raise _Unusable(f"unrecognized file type: {kind}")
        wanted.names += added.get(kind) or [_TYPES[kind]]
    return wanted


@dataclass(frozen=True)
class _Rule:
    expression: re.Pattern[str]
    negated: bool
    only_folders: bool


@dataclass(frozen=True)
class _Ignores:
    """The rules of one folder's ignore files; the last match decides."""

    folder: str
    rules: tuple[_Rule, ...]

    def says(self, path: str, is_folder: bool) -> bool | None:
        relative = path[len(self.folder) :].lstrip("/")
        for rule in reversed(self.rules):
            if (is_folder or not rule.only_folders) and rule.expression.fullmatch(relative):
                return not rule.negated
        return None


def _ignores_in(folder: str) -> _Ignores | None:
    rules: list[_Rule] = []
    for name in (".gitignore", ".ignore"):
        text = read_start(os.path.join(folder, name), _LARGEST_IGNORE_FILE)  # noqa: PTH118
        for line in text.splitlines():
            line = line.rstrip()
            if line and not line.startswith("#"):
                rules.append(_rule(line))
    return _Ignores(folder, tuple(rules)) if rules else None


def _rule(line: str) -> _Rule:
    negated = line.startswith("!")
    pattern = line[negated:].removeprefix("\\")
    only_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    pattern = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
    return _Rule(re.compile(glob_regex(pattern), re.DOTALL), negated, only_folders)


def _paths(wanted: _Wanted) -> Iterator[str]:
    chosen = [re.compile(glob_regex(glob), re.DOTALL) for glob in wanted.names]
    kept = [_glob(glob) for glob in wanted.globs if not glob.startswith("!")]
    left_out = [_glob(glob[1:]) for glob in wanted.globs if glob.startswith("!")]
    for root in wanted.roots:
        if not Path(root).is_dir():
            yield root
            continue
        for path in _walked(root, _above(root)):
            relative = path[len(root.rstrip("/")) + 1 :]
            name = relative.rpartition("/")[2]
            if chosen and not any(each.fullmatch(name) for each in chosen):
                continue
            if kept and not any(each.fullmatch(relative) for each in kept):
                continue
            if not any(each.fullmatch(relative) for each in left_out):
                yield path


def _glob(glob: str) -> re.Pattern[str]:
    return re.compile(glob_regex(glob.lstrip("/") if "/" in glob else f"**/{glob}"), re.DOTALL)


def _above(root: str) -> list[_Ignores]:
    """The ignore files of the parent folders, up to the repository's root."""
    found: list[_Ignores] = []
    folder = Path(root)
    while not (folder / ".git").exists() and folder.parent != folder:
        folder = folder.parent
        ignores = _ignores_in(str(folder))
        found += [ignores] if ignores else []
    return found[::-1]


def _walked(folder: str, ignores: list[_Ignores]) -> Iterator[str]:
    own = _ignores_in(folder)
    if own is not None:
        ignores = [*ignores, own]
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in ordered:
        # Links are not followed, to avoid loops.
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or not (is_folder or entry.is_file(follow_symlinks=False)):
            continue
        said = (each.says(entry.path, is_folder) for each in reversed(ignores))
        if next((verdict for verdict in said if verdict is not None), False):
            continue
        if is_folder:
            yield from _walked(entry.path, ignores)
        else:
            yield entry.path


def _files(wanted: _Wanted) -> Iterator[bytes]:
    end = b"\0" if "--null" in wanted.flags else b"\n"
    for path in _paths(wanted):
        yield os.fsencode(path) + end


def _searched(wanted: _Wanted) -> Iterator[bytes]:
    flags = re.IGNORECASE if "--ignore-case" in wanted.flags else 0
    flags |= re.MULTILINE | (re.DOTALL if "--multiline-dotall" in wanted.flags else 0)
    try:
        expression = re.compile(wanted.pattern, flags)
    except re.error as error:
        raise _Unusable(f"regex parse error:\n    {wanted.pattern}\nerror: {error}") from error
    first = True
    for path in _paths(wanted):
        text = _text(path)
        if text is None:
            continue
        lines = text.removesuffix("\n").split("\n")
        hits = _hits(expression, text, lines, "--multiline" in wanted.flags)
        if not hits:
            continue
        name = b"" if "--no-filename" in wanted.flags else os.fsencode(path)
        if "--files-with-matches" in wanted.flags:
            yield name + (b"\0" if "--null" in wanted.flags else b"\n")
        elif "--count" in wanted.flags:
            yield b"%s\0%d\n" % (name, len(hits))
        else:
            if not first and (wanted.before or wanted.after):
                yield b"--\n"
            yield from _printed(name, lines, hits, wanted)
        first = False


def _text(path: str) -> str | None:
    data = read_bounded(path, _LARGEST_FILE)
    if isinstance(data, Unread):
        return None
    return None if b"\0" in data[:_SAMPLE] else data.decode("utf-8", errors="surrogateescape")


def _hits(expression: re.Pattern[str], text: str, lines: list[str], multiline: bool) -> dict[int, int]:
    """The line numbers of matches, from zero, in order, each with the position of the match."""
    if not multiline:
        found = ((index, expression.search(line)) for index, line in enumerate(lines))
        return {index: match.start() for index, match in found if match}
    hits: dict[int, int] = {}
    for match in expression.finditer(text):
        start = text.count("\n", 0, match.start())
        hits.setdefault(start, match.start() - text.rfind("\n", 0, match.start()) - 1)
        for index in range(start + 1, start + match.group().removesuffix("\n").count("\n") + 1):
            hits.setdefault(index, 0)
    return hits


def _printed(name: bytes, lines: list[str], hits: dict[int, int], wanted: _Wanted) -> Iterator[bytes]:
    last = -1
    offset = counted = 0
    for hit in hits:
        start = max(last + 1, hit - wanted.before)
        if last >= 0 and start > last + 1:
            yield b"--\n"
        for index in range(start, min(len(lines), hit + wanted.after + 1)):
            offset += sum(len(_encoded(line)) + 1 for line in lines[counted:index])
            counted = last = index
            place = _place(index + 1, lines[index], hits.get(index), offset, wanted)
            yield (name + b"\0" if name else b"") + place + _shortened(lines[index], hits.get(index), wanted) + b"\n"


def _place(number: int, line: str, at: int | None, offset: int, wanted: _Wanted) -> bytes:
    mark = b"-" if at is None else b":"
    place = b"%d%s" % (number, mark) if "--line-number" in wanted.flags else b""
    if "--column" in wanted.flags and at is not None:
        place += b"%d:" % (len(_encoded(line[:at])) + 1)
    return place + (b"%d%s" % (offset, mark) if "--byte-offset" in wanted.flags else b"")


def _shortened(line: str, at: int | None, wanted: _Wanted) -> bytes:
    if not wanted.longest or len(line) <= wanted.longest:
        return _encoded(line)
    what = "omitted end of long line" if at is None or at < wanted.longest else "1 more match"
    return _encoded(f"{line[: wanted.longest]} [... {what}]")


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", errors="surrogateescape")
