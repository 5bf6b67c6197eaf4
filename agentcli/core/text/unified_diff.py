"""Parse unified diffs of git, `diff -u` or our tools into files and hunks.

The only parser of diffs. Pure, never raises, and loses no line: text around the diffs (a commit's message, output of a
command) stays with the file that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Literal

from agentcli.core.frozen import frozen

_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_BEGIN = "diff --git "
_EXTENDED = (
    *("index ", "mode ", "old mode ", "new mode ", "new file mode ", "deleted file mode "),
    *("similarity index ", "dissimilarity index ", "rename from ", "rename to ", "copy from ", "copy to "),
    *("--- ", "+++ ", "Binary files ", "GIT binary patch"),
)
_DETECTED = re.compile(
    r"^(?:diff --git .+\n(?:.+\n){0,9}?|--- .+\n)(?:\+\+\+ .+\n@@+ -|"
    r"Binary files |GIT binary patch|rename to |new mode |(?:new|deleted) file mode )",
    re.MULTILINE,
)
_AROUND = re.compile(
    r"|commit [0-9a-f]{7,}.*|tag .+|(?:Author|AuthorDate|Commit|CommitDate|Date|Merge|Notes|Tagger)\b.*:.*|    .*"
    r"|diff (?:-\S+ )+.+|Only in .+|Index: .+|=+|---| .+ \| +\S+.*| \d+ files? changed.*"
)
"""Lines that `git log -p`, `git show --stat -p` and `diff -r` print around diffs."""
_ESCAPE = re.compile(r'\\([abfnrtv"\\]|[0-7]{3})')
_ESCAPES = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))
_RETURNS = ("\r", "\u240d")
"""A carriage return at the end of a line, raw and as `terminal_text` shows it."""

Sign = Literal[" ", "+", "-", ""]
LineKind = Literal["text", "header", "hunk", " ", "+", "-", ""]
"""Kind of a line: text around the diff, the header of a file or hunk, or a line by its sign."""
FileState = Literal["modified", "added", "deleted", "renamed", "copied"]
_SIGNS: dict[str, Sign] = {" ": " ", "+": "+", "-": "-"}


@frozen
class DiffLine:
    sign: Sign
    """"" for a line of neither file, such as a note."""
    text: str
    old: int | None = None
    new: int | None = None


@frozen
class Hunk:
    old_start: int
    new_start: int
    lines: list[DiffLine]
    heading: str = ""
    """The place named in the header, e.g. the function."""
    path: str = ""
    """The new file (the old one if it was deleted), if the diff names it."""
    title: str = ""
    """The unchanged header."""


@frozen
class FileDiff:
    path: str = ""
    """The new name (the old one if the file was deleted). Empty for text after the last file."""
    old_path: str = ""
    """The name before a rename or copy."""
    state: FileState = "modified"
    binary: bool = False
    modes: tuple[str, str] = ("", "")
    """File mode before and after, if the diff names both."""
    before: tuple[str, ...] = ()
    """Lines of text that precede this file's diff, such as a commit's message."""
    header: tuple[str, ...] = ()
    """The unchanged lines above the first hunk."""
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def added(self) -> int:
        return sum(line.sign == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        return sum(line.sign == "-" for hunk in self.hunks for line in hunk.lines)

    def remarks(self) -> list[str]:
        """Facts that the lines of the diff do not show: `renamed from a.py`, `binary`."""
        found = [f"{self.state} from {self.old_path}"] if self.old_path else []
        if self.state in ("added", "deleted"):
            found.append("new file" if self.state == "added" else "deleted")
        if self.modes[0] != self.modes[1]:
            found.append(f"mode {self.modes[0]} → {self.modes[1]}")
        if self.binary:
            found.append("binary")
        elif not self.hunks and self.state in ("added", "deleted"):
            found.append("empty")
        return found


def contains_diff(text: str) -> bool:
    return _DETECTED.search(text) is not None


def is_diff(text: str) -> bool:
    """Whether a text is nothing but diffs, with the commits that they belong to: output with other text is not."""
    if not contains_diff(text):
        return False
    return all(_AROUND.fullmatch(line) for file in parse_files(text) for line in file.before)


def parse(text: str) -> list[Hunk]:
    """The hunks of a diff; other text becomes one hunk without numbers. Never raises."""
    files = parse_files(text)
    if not any(file.hunks for file in files):
        lines = [_line(line, _Counter(old_left=None)) for file in files for line in file.before]
        return [Hunk(0, 0, lines)] if lines else []
    hunks: list[Hunk] = []
    for file in files:
        if file.before:
            notes = [DiffLine("", line) for line in file.before]
            if hunks:
                hunks[-1] = replace(hunks[-1], lines=[*hunks[-1].lines, *notes])
            else:
                hunks.append(Hunk(0, 0, notes))
        hunks += file.hunks
    return hunks


def parse_files(text: str) -> list[FileDiff]:
    """The files of a diff, in order. Text after the last one becomes a file without a path."""
    if not text.strip("\n"):
        return []
    reader = _Reader()
    lines = text.rstrip("\n").split("\n")
    for place, line in enumerate(lines):
        reader.read(line, lines[place + 1] if place + 1 < len(lines) else "")
    return reader.files()


def line_kinds(text: str) -> Iterator[tuple[str, LineKind]]:
    """Every line of the text with its kind. Text without a hunk is classified by its signs."""
    lines = text.split("\n")
    reader = _Reader()
    kinds = [reader.read(line, following) for line, following in zip(lines, [*lines[1:], ""], strict=True)]
    if "hunk" not in kinds and "header" not in kinds:
        kinds = [_SIGNS.get(line[:1], "text") for line in lines]
    yield from zip(lines, kinds, strict=True)


def split_files(text: str) -> Iterator[str]:
    """The unchanged text of each file in a git diff: it can be applied."""
    start = 0 if text.startswith("diff --git ") else text.find("\ndiff --git ") + 1
    while 0 <= start < len(text):
        end = text.find("\ndiff --git ", start) + 1
        yield text[start : end or None]
        if not end:
            return
        start = end


class _Counter:
    """Line numbers in both files, and the number of lines that the header still announces; None: it announced none."""

    __slots__ = ("new", "new_left", "old", "old_left")

    def __init__(self, old: int = 0, new: int = 0, old_left: int | None = 0, new_left: int = 0) -> None:
        self.old, self.new = old, new
        self.old_left, self.new_left = old_left, new_left

    @property
    def open(self) -> bool:
        return self.old_left is None or self.old_left > 0 or self.new_left > 0

    def take(self, sign: Sign) -> tuple[int | None, int | None]:
        old = new = None
        if sign in (" ", "-"):
            old, self.old = self.old or None, self.old + bool(self.old)
            self.old_left = self.old_left - 1 if self.old_left else self.old_left
        if sign in (" ", "+"):
            new, self.new = self.new or None, self.new + bool(self.new)
            self.new_left = max(0, self.new_left - 1)
        return old, new


class _Reader:
    """Processes one line after the other."""

    def __init__(self) -> None:
        self._done: list[FileDiff] = []
        self._text: list[str] = []
        self._before: list[str] = []
        self._header: list[str] = []
        self._hunks: list[Hunk] = []
        self._counter = _Counter()
        self._in_header = False

    def files(self) -> list[FileDiff]:
        self._finish()
        return [*self._done, FileDiff(before=tuple(self._text))] if self._text else self._done

    def read(self, line: str, following: str) -> LineKind:
        # Inside a hunk only these lines mean that it was cut short; anything else is code.
        if self._counter.open and not line.startswith(("@@ ", _BEGIN)):
            return self._add(_line(line, self._counter))
        if line.startswith(_BEGIN) or self._is_plain_start(line, following):
            self._begin(line)
            return "header"
        if (found := _HEADER.match(line)) is not None:
            self._open(line, found)
            return "hunk"
        if self._in_header and not self._hunks and (line.startswith(_EXTENDED) or self._is_binary_patch(line)):
            self._header.append(line)
            return "header"
        if line.startswith("\\ ") and self._hunks:
            return self._add(DiffLine("", line.removeprefix("\\ ")))
        self._finish()
        self._text.append(line)
        return "text"

    def _add(self, line: DiffLine) -> LineKind:
        self._hunks[-1].lines.append(line)
        return line.sign

    def _is_plain_start(self, line: str, following: str) -> bool:
        if not line.startswith("--- ") or not following.startswith("+++ "):
            return False
        return not self._in_header or bool(self._hunks) or any(one.startswith("--- ") for one in self._header)

    def _is_binary_patch(self, line: str) -> bool:
        return any(one.startswith("GIT binary patch") for one in self._header) and not line.startswith("commit ")

    def _begin(self, line: str) -> None:
        self._finish()
        self._before, self._text = self._text, []
        self._header, self._in_header = [line], True

    def _open(self, line: str, found: re.Match[str]) -> None:
        if not self._in_header:
            # A hunk without a file header, as our tools write them.
            self._before, self._text, self._in_header = self._text, [], True
        old, old_count, new, new_count, heading = found.groups()
        self._counter = _Counter(
            max(1, int(old)), max(1, int(new)), int(old_count) if old_count else 1, int(new_count) if new_count else 1
        )
        self._hunks.append(Hunk(int(old), int(new), [], heading.strip(), _path(self._header), line))

    def _finish(self) -> None:
        if self._in_header:
            self._done.append(_file(self._before, self._header, [_strip_returns(hunk) for hunk in self._hunks]))
        self._before, self._header, self._hunks = [], [], []
        self._in_header, self._counter = False, _Counter()


def _file(before: Sequence[str], header: Sequence[str], hunks: list[Hunk]) -> FileDiff:
    fields = {start: value for line in header for start, value in _field(line)}
    old = fields.get("rename from ") or fields.get("copy from ")
    state: FileState = "modified"
    if old is not None:
        state = "renamed" if "rename from " in fields else "copied"
    elif "new file mode " in fields or _unquote(fields.get("--- ", "")) == "/dev/null":
        state = "added"
    elif "deleted file mode " in fields or _unquote(fields.get("+++ ", "")) == "/dev/null":
        state = "deleted"
    modes = fields.get("old mode ", ""), fields.get("new mode ", "")
    binary = "Binary files " in fields or "GIT binary patch" in fields
    old_path = _unquote(old) if old else ""
    return FileDiff(_path(header), old_path, state, binary, modes, tuple(before), tuple(header), hunks)


def _field(line: str) -> Iterator[tuple[str, str]]:
    for start in _EXTENDED:
        if line.startswith(start):
            yield start, line[len(start) :]


def _path(header: Sequence[str]) -> str:
    """The file that a header names."""
    fields = {start: value for line in header for start, value in _field(line)}
    for start in ("rename to ", "copy to "):
        if start in fields:
            return _unquote(fields[start])
    for start in ("+++ ", "--- "):
        if start in fields and (name := _unquote(fields[start])) != "/dev/null":
            return name[2:] if name[:2] in ("a/", "b/") else name
    return _find_repeated_name(header[0]) if header else ""


def _find_repeated_name(line: str) -> str:
    """The name in `diff --git a/name b/name`, the only place where git names a file without lines to show."""
    if not line.startswith(_BEGIN):
        return ""
    rest = line.removeprefix(_BEGIN)
    if rest.startswith('"'):
        name = _unquote(rest[: (len(rest) - 1) // 2])
        return name[2:] if name[:2] == "a/" else name
    middle = len(rest) // 2
    return rest[middle + 3 :] if rest[:2] == "a/" and rest[2:middle] == rest[middle + 3 :] else rest


def _unquote(name: str) -> str:
    """A name as git or `diff` writes it: possibly quoted as in C, possibly followed by a tab and a date."""
    name = name.rstrip("\t\r\u240d")
    if not name.startswith('"') or not name.endswith('"') or len(name) < 2:
        return name.split("\t")[0]
    data = b""
    # Split by a pattern with a group: every second part was escaped. Octal numbers are bytes of the name.
    for place, part in enumerate(_ESCAPE.split(name[1:-1])):
        if not place % 2:
            data += part.encode("utf-8", "replace")
        else:
            data += _ESCAPES[part].encode() if part in _ESCAPES else bytes([int(part, 8) & 0xFF])
    return data.decode("utf-8", "replace")


def _line(line: str, counter: _Counter) -> DiffLine:
    sign = _SIGNS.get(line[:1])
    if sign:
        return DiffLine(sign, line[1:], *counter.take(sign))
    if not line and counter.open:
        return DiffLine(" ", "", *counter.take(" "))  # a trailing blank is easily lost
    return DiffLine("", line.removeprefix("\\ "))


def _strip_returns(hunk: Hunk) -> Hunk:
    """The hunk without trailing carriage returns if all lines have one: then they are not a difference."""
    code = [line for line in hunk.lines if line.sign]
    if not code or not all(line.text.endswith(_RETURNS) for line in code):
        return hunk
    lines = [replace(line, text=line.text[:-1]) if line.sign else line for line in hunk.lines]
    return replace(hunk, lines=lines)
