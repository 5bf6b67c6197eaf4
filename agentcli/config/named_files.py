"""Files of a project that the commands in a configuration name: hooks, and programs of MCP servers.

They run outside of the sandbox, so they are as much a part of what the user trusts as the command itself. Only files
that a command's own words name are found, also in folders that other words of it name (`cd scripts && ./fmt.sh`), but
neither what such a file loads nor what a pattern matches.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentcli.core.files.bounded_json import parse_json

_EXPANSION = re.compile(r"([\"']?)(?:\$\{[^{}]*\}|\$\w+|\$\([^()]*\)|`[^`]*`)\1")
"""`$CLAUDE_PROJECT_DIR`, `$(git rev-parse --show-toplevel)` and the like: taken for the project's folder."""
_BETWEEN_WORDS = re.compile(r"[\s;|&<>()'\"`=,]+")
_WRITTEN = re.compile(r"\d*&?>{1,2}[|&]?\s*[^\s;|&<>()]+")
"""A redirection into a file, which a hook may change itself."""
_DATA = frozenset(
    {".log", ".txt", ".json", ".jsonl", ".md", ".yaml", ".yml", ".toml", ".css", ".html", ".csv", ".xml", ".lock"}
    | {".tmp", ".out", ".pid", ".ini"}
)
"""Endings of files that no program runs."""
_MAX_PATHS = 500
_MAX_WORD_CHARS = 400


def named_paths(texts: Iterable[str], root: Path, cwd: Path) -> list[str]:
    """Paths below `root` that commands in these JSON texts may name, relative to it, whether they exist or not."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            value = parse_json(text.removeprefix("\ufeff"))
        except ValueError:
            continue
        for command, folder in _commands(value):
            words, bases = list(dict.fromkeys(_words(command))), dict.fromkeys((root, cwd, root / folder))
            named = _paths(words, bases, root)
            found |= named | _paths(words, (root / name for name in named if (root / name).is_dir()), root)
    return list(found)[:_MAX_PATHS]


def _paths(words: Iterable[str], bases: Iterable[Path], root: Path) -> dict[str, None]:
    """The paths relative to `root` that these words name in any of the folders, except those elsewhere."""
    paths = (os.path.relpath(os.path.normpath(base / word), root) for base in bases for word in words)
    return {path: None for path in paths if path not in (".", "..") and not path.startswith("../")}


def _commands(value: Any) -> Iterator[tuple[str, str]]:
    """Each command with the folder that its entry names, "" for none."""
    if isinstance(value, list):
        for item in value:
            yield from _commands(item)
    elif isinstance(value, dict):
        folder = value.get("cwd")
        place = folder if isinstance(folder, str) and "\0" not in folder else ""
        given = (value.get("command"), value.get("headersHelper"))
        yield from ((text, place) for text in given if isinstance(text, str))
        arguments = value.get("args")
        for text in arguments if isinstance(arguments, list) else ():
            if isinstance(text, str):
                yield text, place
                yield shlex.quote(text), place
        for item in value.values():
            yield from _commands(item)


def _words(command: str) -> Iterator[str]:
    plain = _WRITTEN.sub(" ", command)
    for text in (plain, _EXPANSION.sub(".", plain)):
        try:
            quoted = shlex.split(text)
        except ValueError:
            quoted = []
        for word in (*quoted, *_BETWEEN_WORDS.split(text)):
            usable = word and len(word) <= _MAX_WORD_CHARS and "\0" not in word and not word.startswith(("-", "$"))
            if usable and os.path.splitext(word)[1].lower() not in _DATA:  # noqa: PTH122 - a word, not a path
                yield os.path.expanduser(word)  # noqa: PTH111
