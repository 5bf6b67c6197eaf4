"""Syntax highlighting: code as runs of styled text, line by line, including code that is still growing.

Pygments is imported at the first use, one language at a time (5 to 50 ms each). `warm` does that in a thread, and
`is_ready` tells whether highlighting now would block. Only built-in lexer names are looked up: for other names Pygments
would search all installed packages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from rich.style import Style

from agentcli.tui.blocks.wrap import Run
from agentcli.tui.theme.palette import Palette

_SAME_SUFFIX = "cmake css dart go java jsx less lua nix php r rst scss sql swift toml tsx zig"
"""Languages whose name is also the file suffix."""
_SUFFIXES = {suffix: suffix for suffix in _SAME_SUFFIX.split()} | {
    suffix: language
    for language, suffixes in {
        "bash": "sh bash zsh ksh bashrc zshrc profile env",
        "c": "c h",
        "clojure": "clj cljs edn",
        "cpp": "cc cpp cxx hh hpp hxx ino",
        "csharp": "cs",
        "diff": "diff patch",
        "docker": "dockerfile containerfile",
        "elixir": "ex exs",
        "erlang": "erl hrl",
        "fsharp": "fs fsx",
        "graphql": "graphql gql",
        "groovy": "groovy gradle",
        "haskell": "hs",
        "html": "html htm xhtml vue svelte",
        "ini": "ini cfg conf editorconfig gitconfig properties",
        "javascript": "js mjs cjs",
        "json": "json jsonc jsonl ndjson ipynb webmanifest",
        "julia": "jl",
        "kotlin": "kt kts",
        "make": "mk makefile gnumakefile",
        "markdown": "md markdown mdx",
        "objective-c": "m mm",
        "ocaml": "ml mli",
        "perl": "pl pm",
        "powershell": "ps1 psm1",
        "protobuf": "proto",
        "python": "py pyi pyw",
        "ruby": "rb rake gemspec gemfile rakefile",
        "rust": "rs",
        "scala": "scala sbt",
        "terraform": "tf tfvars hcl",
        "tex": "tex sty",
        "typescript": "ts mts cts",
        "vim": "vim vimrc",
        "xml": "xml svg xsd xsl plist csproj",
        "yaml": "yaml yml",
    }.items()
    for suffix in suffixes.split()
}


def language_of(path: str) -> str:
    """A language name for `highlight`, or "" if the file is not known to be code."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    if name.startswith(("dockerfile.", "containerfile.")):
        return "docker"
    if name == "cmakelists.txt":
        return "cmake"
    return _SUFFIXES.get(name.rpartition(".")[2], "")


COMMON = ("python", "bash", "javascript", "typescript", "json", "diff", "html", "yaml", "toml", "sql", "go", "rust")
"""Languages common in answers, the most likely first."""

_MAX_LINES = 2_000
_MAX_LINE = 2_000
_MAX_CHARACTERS = 30_000
"""Limit for highlighting: lexers process about 600 KB a second, so more would block the screen."""
_MAX_LEXED_TWICE = 12_000
"""Size up to which a finished block is lexed again as a whole, because some patterns span lines."""
_MULTILINE_COMMENTS = (("/*", "*/"), ("<!--", "-->"))
"""Comments that most lexers match as a whole: an unfinished one is held back instead of being lexed as code."""
_NAME = re.compile(r"[\s{.]*([A-Za-z0-9][A-Za-z0-9+#_.-]{0,23})")
_PLAIN_NAMES = frozenset(("", "text", "txt", "plain", "plaintext", "output", "none", "raw"))
_ALIASES = {
    "jsonc": "json",
    "json5": "json",
    "shell": "bash",
    "zsh": "bash",
    "console": "bash",
    "dockerfile": "docker",
}

_KINDS = {
    "Comment": "comment",
    "Comment.Preproc": "keyword",
    "Comment.PreprocFile": "string",
    "Generic.Deleted": "removed",
    "Generic.Heading": "heading",
    "Generic.Inserted": "added",
    "Generic.Output": "name",
    "Generic.Prompt": "operator",
    "Generic.Subheading": "heading",
    "Keyword": "keyword",
    "Keyword.Constant": "constant",
    "Keyword.Type": "type",
    "Literal": "string",
    "Literal.Date": "number",
    "Literal.Number": "number",
    "Literal.String": "string",
    "Literal.String.Affix": "keyword",
    "Literal.String.Escape": "escape",
    "Literal.String.Interpol": "escape",
    "Name.Attribute": "attribute",
    "Name.Builtin": "builtin",
    "Name.Class": "type",
    "Name.Constant": "constant",
    "Name.Decorator": "decorator",
    "Name.Exception": "type",
    "Name.Function": "function",
    "Name.Tag": "tag",
    "Operator": "operator",
    "Operator.Word": "keyword",
}
"""Palette style by Pygments token. A token uses its closest ancestor in this table, or else `name`."""

_LEXER_ERRORS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)

Tokens = Iterator[tuple[Any, str]]


def language_name(info: str) -> str:
    found = _NAME.match(info)
    return found[1].lower() if found else ""


def highlight(code: str, language: str, palette: Palette, base: Style | None = None) -> list[list[Run]]:
    """Runs of every line, in the palette's styles on `base`. Unknown or too long code stays plain. Never raises."""
    paint = _Paint(palette, base)
    lines = code.split("\n")
    if len(code) > _MAX_CHARACTERS or len(lines) > _MAX_LINES or max(map(len, lines)) > _MAX_LINE:
        return [paint.plain(line) for line in lines]
    if language == "diff":
        return [paint.diff(line) for line in lines]
    lexer = _lexer(language)
    if lexer is None:
        return [paint.plain(line) for line in lines]
    try:
        found = paint.lines(_whole(lexer, code))
    except _LEXER_ERRORS:
        found = []
    if "\n".join(["".join([text for text, _style in line]) for line in found]) != code:
        return [paint.plain(line) for line in lines]
    return found


def is_ready(language: str) -> bool:
    """Whether highlighting this language needs neither an import nor the compilation of its patterns."""
    if "pygments.lexers._mapping" not in sys.modules:
        return language in _PLAIN_NAMES or language == "diff"
    place = _place(language)
    if place is None:
        return True
    # A module is in `sys.modules` while another thread still imports it.
    kind = getattr(sys.modules.get(place[0]), place[1], None)
    return kind is not None and ("_tokens" in kind.__dict__ or not hasattr(kind, "tokens"))


def warm(languages: Iterable[str] = COMMON) -> None:
    """Load languages. Run it in a thread: it does not touch the screen."""
    for language in languages:
        lexer = None if is_ready(language) else _lexer(language)
        if lexer is not None:
            for _token in _whole(lexer, "x = 1\n"):  # Patterns are compiled at the first use.
                pass


class Highlighter:
    """Highlights growing code. Complete lines are lexed once; the open line is lexed at every call."""

    def __init__(self, language: str, palette: Palette, base: Style | None = None) -> None:
        self.language = language
        self._paint = _Paint(palette, base)
        self._lexer = None if language == "diff" else _lexer(language)
        self._stack = ["root"]
        self._held = ""
        """Complete lines that are not lexed finally: a comment began in them and has not ended."""
        self._lines: list[list[Run]] = []
        self._taken = 0
        self._characters = 0

    def feed(self, text: str) -> None:
        if not text:
            return
        self._characters += len(text)
        if self._lexer is None or self._is_full(text):
            self._settle(self._held + text, plain=self._lexer is not None)
            self._held = ""
            return
        self._held += text
        if not _ending(self._held):
            self._settle(self._held)
            self._held = ""

    def take(self) -> list[list[Run]]:
        """Return the final lines that were not returned before."""
        found = self._lines[self._taken :]
        self._taken = len(self._lines)
        return found

    def open_rows(self, open_line: str) -> list[list[Run]]:
        """Return the lines after the final ones in their current state; the open line is the last."""
        rest = self._held + open_line
        if self._lexer is None or self._is_full(open_line):
            return [self._line(line) for line in rest.split("\n")]
        tokens = _resumed(self._lexer, rest + _ending(rest), list(self._stack))
        try:
            return self._paint.lines(_without_end(tokens, len(rest)))
        except _LEXER_ERRORS:
            self._lexer = None
            return self.open_rows(open_line)

    def _settle(self, text: str, *, plain: bool = False) -> None:
        if self._lexer is None or plain:
            self._lines += [self._line(line) for line in text[:-1].split("\n")]
            return
        try:
            self._lines += self._paint.lines(_resumed(self._lexer, text, self._stack))[:-1]
        except _LEXER_ERRORS:
            self._lexer = None
            self._settle(text)

    def _line(self, line: str) -> list[Run]:
        return self._paint.diff(line) if self.language == "diff" else self._paint.plain(line)

    def _is_full(self, text: str) -> bool:
        too_much = self._characters > _MAX_CHARACTERS or len(self._lines) > _MAX_LINES
        return too_much or len(text) > _MAX_LINE


def can_lex_whole(code: str) -> bool:
    return len(code) <= _MAX_LEXED_TWICE


class _Paint:
    def __init__(self, palette: Palette, base: Style | None) -> None:
        ground = Style.null() if base is None else base
        self._styles: Mapping[str, Style] = {kind: ground + style for kind, style in palette.syntax.items()}
        self._name = self._styles.get("name", ground + palette.text)
        self._ground = self._name if base is None else ground

    def plain(self, line: str) -> list[Run]:
        return [(line, self._ground)] if line else []

    def diff(self, line: str) -> list[Run]:
        if line.startswith(("@@", "diff ", "index ", "+++", "---")):
            return [(line, self._styles.get("heading", self._name))]
        kind = {"+": "added", "-": "removed"}.get(line[:1], "name")
        return [(line, self._styles.get(kind, self._name))] if line else []

    def lines(self, tokens: Tokens) -> list[list[Run]]:
        """Merge neighbours of one style into one run, with the blanks between them: fewer segments paint faster."""
        lines: list[list[Run]] = []
        line: list[Run] = []
        text, style = "", self._name
        for token, value in tokens:
            own = self._styles.get(_kind(token), self._name)
            if own is not style and not value.isspace():
                if text.isspace():
                    value, text = text + value, ""
                if text:
                    line.append((text, style))
                    text = ""
                style = own
            parts = value.split("\n") if "\n" in value else (value,)
            text += parts[0]
            for part in parts[1:]:
                if text:
                    line.append((text, style))
                lines.append(line)
                line, text = [], part
        if text:
            line.append((text, style))
        lines.append(line)
        return lines


@lru_cache(maxsize=512)
def _kind(token: Any) -> str:
    name = ".".join(token)
    while name:
        if name in _KINDS:
            return _KINDS[name]
        name = name.rpartition(".")[0]
    return "name"


@lru_cache(maxsize=1)
def _places() -> Mapping[str, tuple[str, str]]:
    """Module and class of every lexer by alias. Reads a table inside Pygments, which loads no lexer."""
    table = import_module("pygments.lexers._mapping").LEXERS
    return {alias: (entry[0], name) for name, entry in reversed(table.items()) for alias in entry[2]}


def _place(language: str) -> tuple[str, str] | None:
    if language in _PLAIN_NAMES or language == "diff":
        return None
    return _places().get(_ALIASES.get(language, language))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    place = _place(language)
    if place is None:
        return None
    return getattr(import_module(place[0]), place[1])(stripnl=False, ensurenl=False)


def _whole(lexer: Any, code: str) -> Tokens:
    """Tokens of the whole code. `get_tokens` would normalise the text first, which moves lines."""
    for _place, token, value in lexer.get_tokens_unprocessed(code):
        yield token, value


def _resumed(lexer: Any, text: str, stack: list[str]) -> Tokens:
    """Tokens of text that continues earlier text. `stack` is the lexer's state before it, and is updated to the state
    after it. Lexers that are not tables of patterns lex each text separately."""
    kinds = import_module("pygments.lexer")
    if not isinstance(lexer, kinds.RegexLexer) or isinstance(lexer, kinds.ExtendedRegexLexer):
        yield from _whole(lexer, text)
        return
    unknown = import_module("pygments.token").Text
    simple = type(unknown)
    table = lexer._tokens
    place = 0
    while place < len(text):
        for match_at, action, change in table[stack[-1]]:
            match = match_at(text, place)
            if match is None:
                continue
            if type(action) is simple:
                yield action, match.group()
            elif action is not None:
                for _place, token, value in action(lexer, match):
                    yield token, value
            place = match.end()
            if change is not None:
                _move(stack, change)
            break
        else:  # No pattern matched: lexers expect to return to the root state at the end of a line.
            if text[place] == "\n":
                stack[:] = ["root"]
            yield unknown, text[place]
            place += 1


def _move(stack: list[str], change: Any) -> None:
    """Apply a pattern's state change, as Pygments does: push, pop or stay."""
    for step in change if isinstance(change, tuple) else (change,):
        if step == "#pop":
            if len(stack) > 1:
                stack.pop()
        elif step == "#push":
            stack.append(stack[-1])
        elif isinstance(step, int):
            del stack[max(1, len(stack) + step) :]
        else:
            stack.append(step)


def _ending(text: str) -> str:
    """Return the terminator of the comment that is open at the end of the text; "" if there is none."""
    if len(text) > _MAX_LINE * 4:
        return ""
    for begin, end in _MULTILINE_COMMENTS:
        place = text.rfind(begin)
        if place >= 0 and text.find(end, place + len(begin)) < 0:
            return end
    return ""


def _without_end(tokens: Tokens, length: int) -> Tokens:
    for token, value in tokens:
        if length <= 0:
            return
        yield token, value[:length]
        length -= len(value)
