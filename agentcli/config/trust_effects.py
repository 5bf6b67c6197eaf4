"""What a configuration makes agentcli run: programs, addresses and variables for trust questions, and named files.

A trust question also shows the files in full. JSON can spell the same text in many ways; this is the text that would
be used.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.core.files.access import parse_json
from agentcli.core.frozen import frozen

if TYPE_CHECKING:
    from agentcli.config.trust import TrustState

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""A reference to an environment variable in an MCP server's entry, with an optional default."""


@frozen
class TrustEffects:
    """Effects of the files, each with the name of its file."""

    programs: tuple[tuple[str, str], ...] = ()
    addresses: tuple[tuple[str, str], ...] = ()
    """Addresses of MCP servers."""
    variables: tuple[tuple[str, str], ...] = ()
    """Names of the user's environment variables passed to MCP servers in arguments, variables, addresses or headers."""
    git: tuple[tuple[str, str], ...] = ()
    """Programs that git runs for its commands in this repository. agentcli's own git does not run them."""

    def list_titles(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        return (
            ("Programs it would start:", self.programs),
            ("Addresses it would contact:", self.addresses),
            ("Environment variables of yours that its servers would get:", self.variables),
            ("Git settings and hooks that can run programs:", self.git),
        )


def effects_of(state: TrustState) -> TrustEffects:
    found: dict[str, dict[tuple[str, str], None]] = {"program": {}, "address": {}, "variable": {}}
    for part in state.parts:
        if not part.name.endswith(".json"):
            continue
        try:
            value = parse_json(part.text.removeprefix("\ufeff"))
        except ValueError:
            continue
        for kind, text in _effects(value):
            found[kind][text, part.name] = None
    git = tuple((text, ".git") for text in state.git_programs)
    return TrustEffects(tuple(found["program"]), tuple(found["address"]), tuple(found["variable"]), git)


def _effects(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _effects(item)
    elif isinstance(value, dict):
        if isinstance(command := value.get("command"), str):
            arguments = value.get("args")
            yield "program", " ".join([command, *(map(str, arguments) if isinstance(arguments, list) else ())])
        for name, item in value.items():
            if name == "mcpServers" and isinstance(item, dict):
                yield from _of_servers(item)
            yield from _effects(item)


def _of_servers(servers: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in servers.values():
        if not isinstance(entry, dict):
            continue
        if isinstance(helper := entry.get("headersHelper"), str):
            yield "program", helper
        if isinstance(url := entry.get("url"), str):
            yield "address", url
        yield from (("variable", name) for name in variables_in(entry))


def variables_in(value: object) -> tuple[str, ...]:
    """Names of the environment variables to which an entry refers."""
    return tuple(dict.fromkeys(_variable_names(value)))


def _variable_names(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (match.group(1) for match in VARIABLE.finditer(value))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _variable_names(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _variable_names(item)


# --------------------------------------------------------------------------------------------------------- named files

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
MAX_NAMED = 500
"""Number of named files that are protected and compared; a project whose commands name more is not trusted."""
_MAX_WORD_CHARS = 400


def named_paths(texts: Iterable[str], root: Path, cwd: Path) -> list[str]:
    """Paths below `root` that commands in these JSON texts may name, relative to it, whether they exist or not.

    Hooks and MCP servers run outside of the sandbox, so these files are as much a part of what the user trusts as the
    command itself. Only files that a command's own words name are found, also in folders that other words of it name
    (`cd scripts && ./fmt.sh`), but neither what such a file loads nor what a pattern matches.
    """
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
        if len(found) > MAX_NAMED:
            break
    return list(found)


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
