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

from agentcli.tui.blocks.base import Run
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
_WINDOW = 2_000
"""Characters of growing code that are lexed again at every call: 3 ms."""
_STATEMENT = re.compile(r"\n\n(?=\S)")
_MULTILINE_COMMENTS = (("/*", "*/"), ("<!--", "-->"))
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
    token: kind
    for kind, tokens in {
        "comment": "Comment",
        "keyword": "Comment.Preproc Keyword Literal.String.Affix Operator.Word",
        "string": "Comment.PreprocFile Literal Literal.String",
        "removed": "Generic.Deleted",
        "heading": "Generic.Heading Generic.Subheading",
        "added": "Generic.Inserted",
        "name": "Generic.Output",
        "operator": "Generic.Prompt Operator",
        "constant": "Keyword.Constant Name.Constant",
        "type": "Keyword.Type Name.Class Name.Exception",
        "number": "Literal.Date Literal.Number",
        "escape": "Literal.String.Escape Literal.String.Interpol",
        "attribute": "Name.Attribute",
        "builtin": "Name.Builtin",
        "decorator": "Name.Decorator",
        "function": "Name.Function",
        "tag": "Name.Tag",
    }.items()
    for token in tokens.split()
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
    """Highlights growing code. The last lines are lexed again at every call; lines before them are settled, up to a
    place where a statement begins, at which a lexer can start as at the beginning of a file."""

    def __init__(self, language: str, palette: Palette, base: Style) -> None:
        self._language = language
        self._palette = palette
        self._base = base
        self._open = ""
        """Complete lines that are not settled."""

    def feed(self, lines: str) -> list[list[Run]]:
        """Add complete lines. Return the lines that are settled now."""
        self._open += lines
        if len(self._open) <= _WINDOW:
            return []
        starts = [found.end() for found in _STATEMENT.finditer(self._open)]
        end = starts[-1] if starts else len(self._open) if len(self._open) > 3 * _WINDOW else 0
        settled, self._open = self._open[:end], self._open[end:]
        return highlight(settled[:-1], self._language, self._palette, self._base) if settled else []

    def open_rows(self, open_line: str) -> list[list[Run]]:
        """Return the lines after the settled ones in their current state; the open line is the last."""
        code = self._open + open_line
        # Most lexers match a comment as a whole.
        end = next((end for begin, end in _MULTILINE_COMMENTS if code.rfind(begin) > code.rfind(end)), "")
        rows = highlight(code + end, self._language, self._palette, self._base)
        _cut_end(rows[-1], len(end))
        return rows


def _cut_end(row: list[Run], count: int) -> None:
    while count and row:
        text, style = row.pop()
        if len(text) > count:
            row.append((text[:-count], style))
        count -= min(count, len(text))


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
