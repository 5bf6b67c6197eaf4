"""Parse definition files, Markdown with a header, into commands, skills, agents and output styles; fill in arguments.

The headers of other agents' files are YAML in name only: `description: Use when: …` and `argument-hint: [file] [line]`
are common and not valid YAML. So this reads the subset of YAML that such headers use, and interprets lines that YAML
would refuse as their author meant them: texts, quoted texts, `|` and `>` blocks, lists. It never raises: an unreadable
line becomes a problem with its line number, and the rest is used.

In a body `$ARGUMENTS` stands for all arguments, `$1` to `$9` for single ones, split as a shell splits words. If a text
uses neither, they are appended. Everything is replaced in one pass, so an argument is never expanded again: a `!`
command or a `$1` in it stays text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_line

Value = str | tuple[str, ...]
Scope = Literal["project", "user", "plugin", "built-in"]
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
            more = self._read_indented()
            rows = [_ITEM.match(line) for line in more if line.strip() and not line.lstrip().startswith("#")]
            if rows and all(rows):
                return tuple(_scalar((row.group(1) or "").strip()) for row in rows if row is not None)
            if more and _KEY.match(more[0].strip()):
                self._problem("Nested values are not supported here; this one is ignored.", back=len(more))
                return ""
            return " ".join(line.strip() for line in more).strip()
        # A text that continues in indented lines.
        return _scalar(" ".join([first, *(line.strip() for line in self._read_indented() if line.strip())]))

    def _read_indented(self) -> list[str]:
        """The following lines that belong to the current key: indented ones, and list items."""
        start = self._next
        while self._next < len(self._lines):
            line = self._lines[self._next]
            if line.strip() and not line[0].isspace() and not _ITEM.match(line):
                break
            self._next += 1
        return self._lines[start : self._next]

    def _block(self, *, folded: bool) -> str:
        lines = self._read_indented()
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
    if len(text) > 1 and text[0] == '"' and (end := _find_closing_quote(text)) is not None:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(0)), text[1:end])
    if len(text) > 1 and text[0] == "'" and text.endswith("'"):
        return text[1:-1].replace("''", "'")
    return _COMMENT.sub("", text).strip()


def _find_closing_quote(text: str) -> int | None:
    """Index of the closing double quote, if only a comment follows; None otherwise."""
    found = re.match(r'"(?:[^"\\]|\\.)*"', text)
    return found.end() - 1 if found and not _COMMENT.sub("", text[found.end() :]).strip() else None


MAX_DESCRIPTION = 1_024
_RULE = lazy_pattern(r"[^\s(]+(?:\s*\([^)]*(?:\)|\Z))?")
"""One rule of `allowed-tools`, with an unclosed bracket: without that it would allow every use of the tool."""
_NAME = lazy_pattern(r"[a-z0-9][a-z0-9_.-]*(?::[a-z0-9][a-z0-9_.-]*)*\Z")


@frozen
class DefinitionOrigin:
    """Where a definition comes from."""

    path: Path
    scope: Scope
    label: str
    """The file as shown to the user: `.claude/commands/review.md`."""
    approved: bool = True
    """Whether its `allowed-tools` apply: it is the user's own file, or unchanged since the user trusted it."""


@frozen
class CommandFile:
    """A slash command; `body` is the prompt that it sends."""

    name: str
    """With its sub-folders as namespaces: `frontend:component`."""
    description: str
    origin: DefinitionOrigin
    body: str
    body_line: int = 1
    """Line of the file where the body begins."""
    argument_hint: str = ""
    allowed_tools: tuple[str, ...] = ()
    model: str = ""


@frozen
class SkillFile:
    """A skill; the model or the user loads its `body` when it is needed."""

    name: str
    description: str
    origin: DefinitionOrigin
    body: str
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    argument_hint: str = ""
    for_model: bool = True
    """Whether the model may load it; false with `disable-model-invocation`."""
    for_user: bool = True
    """Whether it is in the user's menu; false with `user-invocable: false`."""

    @property
    def folder(self) -> Path:
        return self.origin.path.parent


@frozen
class AgentFile:
    """A sub-agent; `prompt` is its system prompt."""

    name: str
    description: str
    origin: DefinitionOrigin
    prompt: str
    tools: tuple[str, ...] | None = None
    """None: all tools of the session."""
    disallowed_tools: tuple[str, ...] = ()
    model: str = ""
    """A model or an alias; "" and `inherit`: the session's model."""
    max_turns: int | None = None
    background: bool = False
    """Whether it runs in the background."""
    worktree: bool = False
    """Whether it runs in a git worktree of its own."""


@frozen
class StyleFile:
    """An output style; `body` is added to the system prompt."""

    name: str
    description: str
    origin: DefinitionOrigin
    body: str
    keep_coding_instructions: bool = False
    """Whether the default instructions about coding stay in the system prompt."""


Definition = CommandFile | SkillFile | AgentFile | StyleFile
D = TypeVar("D", bound=Definition)
Parse = Callable[[str, Document, DefinitionOrigin], D]
"""Makes a definition of the name from the file's path, the parsed file, and where it is. Raises `ValueError` with a
message for the user."""


def parse_command(name: str, document: Document, origin: DefinitionOrigin) -> CommandFile:
    return CommandFile(
        name=_valid_name(name),
        description=_description(document) or _first_line(document.body),
        origin=origin,
        body=document.body,
        body_line=document.body_line,
        argument_hint=_argument_hint(document),
        allowed_tools=_rules(document),
        model=document.text("model"),
    )


def parse_skill(name: str, document: Document, origin: DefinitionOrigin) -> SkillFile:
    description = _description(document)
    if not description:
        raise ValueError("A skill needs a `description`, which says when to use it.")
    return SkillFile(
        name=_valid_name(document.text("name") or name),
        description=description,
        origin=origin,
        body=document.body,
        allowed_tools=_rules(document),
        model=document.text("model"),
        argument_hint=_argument_hint(document),
        for_model=not document.flag("disable-model-invocation"),
        for_user=document.flag("user-invocable", default=True),
    )


def _argument_hint(document: Document) -> str:
    """The hint as written: the header's parser reads `[file]` as a list."""
    hint = document.fields.get("argument-hint", "")
    return plain_line(hint if isinstance(hint, str) else f"[{', '.join(hint)}]", 100)


def parse_agent(name: str, document: Document, origin: DefinitionOrigin) -> AgentFile:
    description = _description(document)
    if not description:
        raise ValueError("An agent needs a `description`, which says when to use it.")
    if not document.body.strip():
        raise ValueError("An agent needs a text after its header: it is the agent's system prompt.")
    turns = document.text("max-turns") or document.text("maxturns")
    if turns and not (turns.isdecimal() and int(turns) > 0):
        raise ValueError("`max-turns` must be a number of at least 1.")
    tools = document.texts("tools")
    return AgentFile(
        name=_valid_name(document.text("name") or name),
        description=description,
        origin=origin,
        prompt=document.body,
        tools=None if not tools or tools == ("*",) else tools,
        disallowed_tools=document.texts("disallowed-tools") or document.texts("disallowedtools"),
        model=document.text("model"),
        max_turns=int(turns) if turns else None,
        background=document.flag("background"),
        worktree=document.text("isolation") == "worktree",
    )


def parse_style(name: str, document: Document, origin: DefinitionOrigin) -> StyleFile:
    if not document.body.strip():
        raise ValueError("An output style needs a text after its header.")
    return StyleFile(
        name=_valid_name(document.text("name") or name),
        description=_description(document) or _first_line(document.body),
        origin=origin,
        body=document.body,
        keep_coding_instructions=document.flag("keep-coding-instructions"),
    )


def _valid_name(name: str) -> str:
    folded = re.sub(r"\s+", "-", name.strip().lower())
    if not _NAME.match(folded) or len(folded) > 64:
        raise ValueError(f"The name {plain_line(name, 80)!r} cannot be used: letters, digits, `-` and `_`, at most 64.")
    return folded


def _rules(document: Document) -> tuple[str, ...]:
    """The rules of `allowed-tools`: a list, or one line with commas or blanks between them."""
    return tuple(rule for text in document.texts("allowed-tools") for rule in _RULE.findall(text))


def _description(document: Document) -> str:
    return plain_line(document.text("description"), MAX_DESCRIPTION)


def _first_line(body: str) -> str:
    line = next((line for line in body.splitlines() if line.strip()), "")
    return plain_line(line.lstrip("#").strip(), 120)


_SHELL = lazy_pattern(r"(?<![\w`!\\])!`([^`\n]+)`")
_ARGUMENT = lazy_pattern(r"(\\?)\$(ARGUMENTS\b|[1-9](?!\d))")


@frozen
class ShellPart:
    """A command between `` !` `` and `` ` ``, whose output takes its place."""

    command: str
    line: int
    """Line in the body, counted from 1."""


Part = str | ShellPart


def split_arguments(text: str) -> list[str]:
    """The words of an argument line. An unclosed quote is an ordinary character."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def uses_arguments(body: str) -> bool:
    return any(not found.group(1) for found in _ARGUMENT.finditer(body))


def fill_arguments(body: str, arguments: str) -> str:
    """Fill arguments into a body without `!` commands."""
    filled = _fill(body, arguments, split_arguments(arguments))
    return filled if uses_arguments(body) else _append(filled, arguments)


def expand(body: str, arguments: str) -> tuple[Part, ...]:
    """Split a body into texts and commands to run, both with arguments filled in."""
    parts: list[Part] = []
    words = split_arguments(arguments)
    end, line = 0, 1
    for found in _SHELL.finditer(body):
        parts.append(_fill(body[end : found.start()], arguments, words))
        line += body.count("\n", end, found.start())
        parts.append(ShellPart(_fill(found.group(1), arguments, words).strip(), line))
        end = found.end()
    parts.append(_fill(body[end:], arguments, words))
    if not uses_arguments(body):
        parts[-1] = _append(str(parts[-1]), arguments)
    return tuple(part for part in parts if part)


def _append(text: str, arguments: str) -> str:
    return f"{text.rstrip()}\n\n{arguments}" if arguments else text


def _fill(text: str, arguments: str, words: Sequence[str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found.group(1):
            return found.group(0)[1:]
        if found.group(2) == "ARGUMENTS":
            return arguments
        place = int(found.group(2)) - 1
        return words[place] if place < len(words) else ""

    return _ARGUMENT.sub(value, text)
