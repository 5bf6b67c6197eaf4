"""Parse the header of a Markdown definition: `key: value` lines between two `---` lines.

The headers of other agents' files are YAML in name only: `description: Use when: …` and `argument-hint: [file] [line]`
are common and not valid YAML. So this reads the subset of YAML that such headers use, and interprets lines that YAML
would refuse as their author meant them: texts, quoted texts, `|` and `>` blocks, lists. It never raises: an unreadable
line becomes a problem with its line number, and the rest is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern

Value = str | tuple[str, ...]
_KEY = lazy_pattern(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)\Z")
_BLOCK = lazy_pattern(r"([|>])[+-]?\d?[+-]?\s*(?:#.*)?\Z")
_ITEM = lazy_pattern(r"\s*-(?:\s+(.*)|\s*)\Z")
_COMMENT = lazy_pattern(r"(?<!\s)\s+#.*\Z")
"""Matches at one place per run of blanks: a long run must not take quadratic time."""
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


@frozen
class LineProblem:
    """A problem in a file. `line` counts from 1."""

    line: int
    text: str


@frozen
class Document:
    fields: Mapping[str, Value]
    """Values by key, in lower case with `-` for `_`."""
    body: str
    """The text after the header, without blank lines around it."""
    body_line: int = 1
    """The line where `body` starts."""
    problems: tuple[LineProblem, ...] = ()

    def text(self, name: str) -> str:
        value = self.fields.get(name, "")
        return value if isinstance(value, str) else ", ".join(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list; a single text is split at commas outside of brackets."""
        value = self.fields.get(name, ())
        return split_list(value) if isinstance(value, str) else value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.fields.get(name)
        return default if not isinstance(value, str) or not value else value.lower() in ("true", "yes", "on", "1")


def parse_document(text: str) -> Document:
    """Split a file into header and body. A text without a header is all body."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return _document({}, lines, 0, [])
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        problem = LineProblem(1, "The header that starts here has no closing `---` line.")
        return _document({}, lines, 0, [problem])
    reader = _Header(lines[1:end])
    reader.read()
    return _document(reader.fields, lines, end + 1, reader.problems)


def split_list(text: str) -> tuple[str, ...]:
    """`Bash(git add:*, x), Read` has two parts: commas and blanks inside brackets do not separate."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth = max(0, depth + (letter in "([{") - (letter in ")]}"))
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    return tuple(part for part in (each.strip() for each in (*parts, current)) if part)


def _document(fields: Mapping[str, Value], lines: list[str], start: int, problems: list[LineProblem]) -> Document:
    while start < len(lines) and not lines[start].strip():
        start += 1
    return Document(fields, "\n".join(lines[start:]).rstrip(), start + 1, tuple(problems))


class _Header:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._next = 0
        self.fields: dict[str, Value] = {}
        self.problems: list[LineProblem] = []

    def read(self) -> None:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            self._next += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            found = _KEY.match(line)
            if found is None:
                self._problem("This line is not of the form `key: value`.")
                continue
            name = found.group(1).lower().replace("_", "-")
            if name in self.fields:
                self._problem(f"`{name}` is set twice; the first value is used.")
            value = self._value((found.group(2) or "").strip())
            self.fields.setdefault(name, value)

    def _value(self, first: str) -> Value:
        if block := _BLOCK.match(first):
            return self._block(folded=block.group(1) == ">")
        if first.startswith("["):
            items = _flow_list(first)
            if items is not None:
                return items
        elif not first:
            more = self._indented()
            rows = [_ITEM.match(line) for line in more if line.strip() and not line.lstrip().startswith("#")]
            if rows and all(rows):
                return tuple(_scalar((row.group(1) or "").strip()) for row in rows if row is not None)
            if more and _KEY.match(more[0].strip()):
                self._problem("Nested values are not supported here; this one is ignored.", back=len(more))
                return ""
            return " ".join(line.strip() for line in more).strip()
        # A text that continues in indented lines.
        return _scalar(" ".join([first, *(line.strip() for line in self._indented() if line.strip())]))

    def _indented(self) -> list[str]:
        """The following lines that belong to the current key: indented ones, and list items."""
        start = self._next
        while self._next < len(self._lines):
            line = self._lines[self._next]
            if line.strip() and not line[0].isspace() and not _ITEM.match(line):
                break
            self._next += 1
        return self._lines[start : self._next]

    def _block(self, *, folded: bool) -> str:
        lines = self._indented()
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        text = "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
        return re.sub(r"(?<!\n)\n(?!\n)", " ", text).replace("\n\n", "\n") if folded else text

    def _problem(self, text: str, back: int = 0) -> None:
        # The header starts in line 2 of the file.
        self.problems.append(LineProblem(self._next + 1 - back, text))


def _flow_list(text: str) -> tuple[str, ...] | None:
    """Parse `[a, "b"]`; None for a text that only looks like a list, such as the hint `[file] [line]`."""
    text = _COMMENT.sub("", text)
    if not text.endswith("]") or "[" in text[1:-1] or "]" in text[1:-1]:
        return None
    return tuple(_scalar(part) for part in split_list(text[1:-1]))


def _scalar(text: str) -> str:
    if len(text) > 1 and text[0] == '"' and (end := _closing_quote(text)) is not None:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(0)), text[1:end])
    if len(text) > 1 and text[0] == "'" and text.endswith("'"):
        return text[1:-1].replace("''", "'")
    return _COMMENT.sub("", text).strip()


def _closing_quote(text: str) -> int | None:
    """Index of the closing double quote, if only a comment follows; None otherwise."""
    found = re.match(r'"(?:[^"\\]|\\.)*"', text)
    return found.end() - 1 if found and not _COMMENT.sub("", text[found.end() :]).strip() else None
