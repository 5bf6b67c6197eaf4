"""Code as tokens: the language of a file or of a block, its lexer, and what kind of word each token is.

Pygments is imported at the first use, one language at a time (5 to 50 ms each). Only built-in lexer names are looked
up: for other names Pygments would search all installed packages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from agentcli.core.text.unified_diff import line_kinds

_SAME_SUFFIX = "cmake css dart go java jsx less lua nix php r rst scss sql swift toml tsx zig"
"""Languages whose name is also the file suffix."""
SUFFIXES = {suffix: suffix for suffix in _SAME_SUFFIX.split()} | {
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
    return SUFFIXES.get(name.rpartition(".")[2], "")


_INFO = re.compile(r"[\s{.]*([A-Za-z0-9][A-Za-z0-9+#_.-]{0,23})")
_PLAIN_NAMES = frozenset(("", "text", "txt", "plain", "plaintext", "output", "none", "raw"))
_ALIASES = {"jsonc": "json", "json5": "json", "console": "bash"}
_DIFF_KINDS = {"header": "heading", "hunk": "heading", "+": "added", "-": "removed"}

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

_MAX_LINES = 2_000
_MAX_LINE = 2_000
_MAX_CHARACTERS = 30_000
"""Limits for highlighting: lexers process about 600 KB a second."""
_LEXER_ERRORS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


Tokens = Iterator[tuple[Any, str]]


def language_name(info: str) -> str:
    found = _INFO.match(info)
    return found[1].lower() if found else ""


def token_lines(code: str, language: str) -> list[list[tuple[str, str]]] | None:
    """Runs of text with their kind, as in `core.looks.SYNTAX`, of every line; None for code of an unknown language and
    for too much code. Never raises."""
    lines = code.split("\n")
    if len(code) > _MAX_CHARACTERS or len(lines) > _MAX_LINES or max(map(len, lines)) > _MAX_LINE:
        return None
    if language == "diff":
        return [[(line, _DIFF_KINDS.get(kind, "name"))] if line else [] for line, kind in line_kinds(code)]
    lexer = _lexer(language)
    if lexer is None:
        return None
    try:
        found = _split_lines(lex(lexer, code))
    except _LEXER_ERRORS:
        return None
    return found if "\n".join(["".join([text for text, _kind in line]) for line in found]) == code else None


def _split_lines(tokens: Tokens) -> list[list[tuple[str, str]]]:
    """Merge neighbours of one kind into one run, with the blanks between them: fewer runs paint faster."""
    lines: list[list[tuple[str, str]]] = []
    line: list[tuple[str, str]] = []
    text, kind = "", "name"
    for token, value in tokens:
        own = _kind(token)
        if own is not kind and not value.isspace():
            if text.isspace():
                value, text = text + value, ""
            if text:
                line.append((text, kind))
                text = ""
            kind = own
        parts = value.split("\n") if "\n" in value else (value,)
        text += parts[0]
        for part in parts[1:]:
            if text:
                line.append((text, kind))
            lines.append(line)
            line, text = [], part
    if text:
        line.append((text, kind))
    lines.append(line)
    return lines


def warm(language: str) -> None:
    """Load a language. Run it in a thread."""
    lexer = None if is_ready(language) else _lexer(language)
    if lexer is not None:
        for _token in lex(lexer, "x = 1\n"):  # Patterns are compiled at the first use.
            pass


def is_ready(language: str) -> bool:
    """Whether highlighting this language needs neither an import nor the compilation of its patterns."""
    if "pygments.lexers._mapping" not in sys.modules:
        return language in _PLAIN_NAMES or language == "diff"
    place = find_lexer(language)
    if place is None:
        return True
    # A module is in `sys.modules` while another thread still imports it.
    kind = getattr(sys.modules.get(place[0]), place[1], None)
    return kind is not None and ("_tokens" in kind.__dict__ or not hasattr(kind, "tokens"))


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


def find_lexer(language: str) -> tuple[str, str] | None:
    if language in _PLAIN_NAMES or language == "diff":
        return None
    return _places().get(_ALIASES.get(language, language))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    place = find_lexer(language)
    if place is None:
        return None
    return getattr(import_module(place[0]), place[1])(stripnl=False, ensurenl=False)


def lex(lexer: Any, code: str) -> Tokens:
    """Tokens of the whole code. `get_tokens` would normalise the text first, which moves lines."""
    for _place, token, value in lexer.get_tokens_unprocessed(code):
        yield token, value
